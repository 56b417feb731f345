"""A count from logs: by keyed elements, guaranteed and not, and by the tree's GROUP BY, in turn on one fleet.

Events have the time at which they are written, so that windows take them. Before the clock starts, each agent reads
others, so that logical nodes have hosts and code is loaded.
"""

import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import elf
from benchmarks.agents import LIVE, live_logs, memory_folder, running_agents, until_all_run
from benchmarks.environment import use_two_cores
from benchmarks.events import Dataset, write_shop_events
from benchmarks.jobs.fleets import program, running_program
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.client import SyncClient
from elf.client.errors import RefusedError
from elf.demo.agents.agents import AgentFleet

from .graphs import PROGRAMS
from .lines import at_most, beside

TREE, GUARANTEED, PLAIN = "the tree's GROUP BY", "guaranteed", "not guaranteed"
QUERY = f"SELECT product, COUNT(*) AS n FROM {LIVE} GROUP BY product WINDOWING 1 SECOND"
TARGET_LOGS, TARGET_GUARANTEED = 0.75, 0.6
LOG_BYTES = 6 << 30
WARM_UP_EVENTS = 20_000
"""Events that each agent reads before."""
SETTLE_S, POLL_S, TIMEOUT_S, START_S = 3.0, 0.02, 120.0, 60.0
WINDOWS_S = 20.0
"""Time until the windows of all that the tree has counted are there."""
_TIME = re.compile(rb'"created_at":"[^"]*"')


def run(agents: int, events: int, rounds: int, with_targets: bool) -> list[Comparison]:
    """Lets each of them read the same events, which are suddenly in the logs."""
    use_two_cores()
    rates: dict[str, list[float]] = {name: [] for name in (TREE, GUARANTEED, PLAIN)}
    with running_agents(agents, logs_below=memory_folder(LOG_BYTES)) as (fleet, folder, _):
        data = write_shop_events(folder / "events", events, files=agents)
        others = write_shop_events(folder / "others", WARM_UP_EVENTS * agents, files=agents, seed=5)
        counts: list[float] = []
        for number in range(rounds):
            with _tree(fleet, f"tree-{number}", data.events + others.events, counts) as read:
                rates[TREE].append(_rate(fleet, folder, (others, data), read))
            for name in (GUARANTEED, PLAIN):
                with _elements(fleet, f"{name.replace(' ', '-')}-{number}", name == GUARANTEED) as processed:
                    rates[name].append(_rate(fleet, folder, (others, data), processed))
    place = f"{agents} agents"
    value, tree, guaranteed = (statistics.median(rates[name]) / 1e6 for name in (PLAIN, TREE, GUARANTEED))
    aims = (TARGET_LOGS, TARGET_GUARANTEED) if with_targets else (None, None)
    unit = "M events/s"
    return [
        beside(f"count from logs by elements: {place}", value, unit, TREE, tree, aims[0]),
        beside(f"count from logs by elements, guaranteed: {place}", guaranteed, unit, PLAIN, value, aims[1]),
        beside(f"count from logs by elements, guaranteed: {place}", guaranteed, unit, TREE, tree, None),
        at_most(f"events in the windows of {TREE}, least of {rounds} rounds: {place}", 100 * min(counts), "%"),
    ]


@contextmanager
def _tree(fleet: AgentFleet, app: str, events: int, counts: list[float]) -> Iterator[Callable[[], int]]:
    """The query; yields what tells how many events its agents have read. Adds to `counts` the share of `events` in its
    windows."""
    with elf.connect_sync(fleet.socket(fleet.names[0])) as client, client.query(QUERY, app=app) as job:
        until_all_run(job, len(fleet.names), START_S)
        yield lambda: _read(fleet)
        windows: dict[object, int] = {}
        deadline = time.monotonic() + WINDOWS_S
        while sum(windows.values()) < events and (update := job.wait(deadline - time.monotonic())) is not None:
            if isinstance(update, elf.Result):
                windows[update.window_start] = update.events
        counts.append(sum(windows.values()) / events)


@contextmanager
def _elements(fleet: AgentFleet, app: str, guaranteed: bool) -> Iterator[Callable[[], int]]:
    """The count as elements; yields what tells how many events they have processed."""
    code = program("count_logs", PROGRAMS, GUARANTEED=guaranteed)
    with (
        running_program(fleet, app, code),
        elf.connect_sync(fleet.socket(fleet.names[0]), timeout_s=TIMEOUT_S) as client,
    ):
        yield lambda: _processed(client, app)


def _processed(client: SyncClient, app: str) -> int:
    """The events that elements have processed; none before they have begun."""
    with suppress(RefusedError):
        return sum(one.events for one in client.elements(app).elements)
    return 0


def _read(fleet: AgentFleet) -> int:
    """Events of the stream that all agents have read since they began."""
    total = 0
    for name in fleet.names:
        with elf.connect_sync(fleet.socket(name)) as client:
            total += next(stream.events for stream in client.status().streams if stream.name == LIVE)
    return total


def _rate(fleet: AgentFleet, folder: Path, data: tuple[Dataset, Dataset], counted: Callable[[], int]) -> float:
    """The events a second from the moment in which they are in the logs until all are counted; first those before."""
    time.sleep(SETTLE_S)
    others, events = data
    _seconds(fleet, folder, others, counted)
    return events.events / _seconds(fleet, folder, events, counted)


def _seconds(fleet: AgentFleet, folder: Path, data: Dataset, counted: Callable[[], int]) -> float:
    """The time from when events are in the logs until all are counted."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()
    contents = [_TIME.sub(b'"created_at":"%b"' % now, path.read_bytes()) for path in data.paths]
    before, logs = counted(), live_logs(fleet, folder)
    began = time.monotonic()
    for log, content in zip(logs, contents, strict=True):
        with log.open("ab") as file:
            file.write(content)
    while (found := counted() - before) < data.events:
        if time.monotonic() > began + TIMEOUT_S:
            raise BenchmarkError(f"{found:,} of {data.events:,} events are counted after {TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    return time.monotonic() - began
