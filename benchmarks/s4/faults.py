"""How long elements stand still whose host is killed, falls silent, or leaves with 10 MiB of state.

The elements tell it themselves: each knows when it had its last event, and takes that along to its next host. They get
events all the time, from the logs of agents to which nothing happens.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import elf
from benchmarks.agents import live_logs, running_agents
from benchmarks.environment import use_two_cores
from benchmarks.events import write_shop_events
from benchmarks.jobs.fleets import program, running_program
from benchmarks.overlay.lines import quantile
from benchmarks.race import BenchmarkError
from benchmarks.replay import TICK_S, Replay
from benchmarks.report import Comparison
from elf.client import ClientError
from elf.demo.agents.agents import AgentFleet

from .graphs import PROGRAMS
from .lines import at_most

APP = "pauses"
RATE = 2_000.0
"""Log lines a second, of all logs that are written."""
SAMPLE = 20_000
WATCHED = 8
"""So many products are watched: each has 20 events a second and more."""
PAD_MAX = 1_000_000
KILLED, SILENT, MOVED = "host killed (SIGKILL)", "host silent (SIGSTOP)", "hand-over of 10 MiB of state"
TARGETS_S = {KILLED: 2.0, SILENT: 6.0, MOVED: 0.25}
SETTLE_S = 4.0
SILENT_S = 10.0
OVER_S = {KILLED: 5.0, SILENT: SILENT_S + 4.0, MOVED: 6.0}
"""Time after which a pause is over, or counts as this long."""
MOVED_BYTES = 10 << 20
TIMEOUT_S = 60.0


class Seen(NamedTuple):
    """An element as its host has it."""

    agent: str
    last_ms: int
    pauses: list[list[int]]


def run(what: str, agents: int, trials: int) -> list[Comparison]:
    """One kind of fault, again and again."""
    use_two_cores()
    pauses_s: list[float] = []
    with running_agents(agents) as (fleet, folder, _):
        products = _written(folder / "written", agents)
        pad = min(PAD_MAX, MOVED_BYTES * agents // len(products)) if what == MOVED else 0
        code = program("pauses", PROGRAMS, PAD_BYTES=pad, PRODUCTS=products)
        with running_program(fleet, APP, code):
            for _ in range(trials):
                pauses_s += _trial(fleet, folder, what, products[:WATCHED])
    if not pauses_s:
        raise BenchmarkError("no element was hosted by the agent that the fault came to")
    place = f"{agents} agents, {len(pauses_s)} elements in {trials} trials"
    return [
        at_most(f"{what}, pause of its elements, {share}: {place}", quantile(pauses_s, at), "s", target)
        for share, at, target in (("p50", 0.5, None), ("p99", 0.99, TARGETS_S[what]))
    ]


def _trial(fleet: AgentFleet, folder: Path, what: str, products: Sequence[str]) -> list[float]:
    """The pauses of the watched elements on one host, in seconds."""
    asked = fleet.names[-1]
    logs = dict(zip(fleet.names, live_logs(fleet, folder), strict=True))
    with Replay(folder / "sample", list(logs.values()), RATE):
        before = _until(lambda: _hosted(fleet, asked, products), len(products))
    victim = max(fleet.names[:-1], key=lambda name: sum(seen.agent == name for seen in before.values()))
    hit = [product for product, seen in before.items() if seen.agent == victim]
    del logs[victim]
    with Replay(folder / "sample", list(logs.values()), RATE):
        time.sleep(SETTLE_S)
        began_ms = time.time() * 1000
        with _fault(fleet, victim, what):
            time.sleep(OVER_S[what])
            after = _until(lambda: _hosted(fleet, asked, hit), len(hit))
    fleet.wait_ready([victim])
    time.sleep(SETTLE_S)
    return [_pause_s(after.get(product), began_ms, OVER_S[what]) for product in hit]


def _pause_s(seen: Seen | None, began_ms: float, most_s: float) -> float:
    """The longest pause that ended after a time; all of the time where the element has not been seen since."""
    if seen is None or seen.last_ms < began_ms:
        return most_s
    return max((length for end, length in seen.pauses if end >= began_ms), default=0) / 1000


@contextmanager
def _fault(fleet: AgentFleet, victim: str, what: str) -> Iterator[None]:
    if what == SILENT:
        fleet.process(victim).signal(signal.SIGSTOP)
        try:
            yield
        finally:
            fleet.process(victim).signal(signal.SIGCONT)
        return
    if what == KILLED:
        fleet.kill(victim)
    else:
        fleet.process(victim).signal(signal.SIGTERM)
    yield
    fleet.restart(victim)


def _written(folder: Path, agents: int) -> tuple[str, ...]:
    """The products of the lines that `Replay` writes to each log at each tick, which are the same each time."""
    lines = write_shop_events(folder, SAMPLE, files=1).paths[0].read_bytes().splitlines()
    return tuple(dict.fromkeys(json.loads(line)["product"] for line in lines[: int(RATE * TICK_S / agents)]))


def _hosted(fleet: AgentFleet, asked: str, products: Sequence[str]) -> dict[str, Seen]:
    """The elements of these products that there are; agents that are busy may not answer in time."""
    found = {}
    with elf.connect_sync(fleet.socket(asked), timeout_s=TIMEOUT_S) as client:
        for product in products:
            with suppress(ClientError):
                for one in client.elements(APP, key=[product], element="Pauses").states:
                    state = one.state
                    found[product] = Seen(one.agent, state["last_ms"], state["pauses"])
    return found


def _until(look: Callable[[], dict[str, Seen]], count: int) -> dict[str, Seen]:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if len(found := look()) == count:
            return found
        time.sleep(0.2)
    raise BenchmarkError(f"not all of {count} elements are there after {TIMEOUT_S:g} s")
