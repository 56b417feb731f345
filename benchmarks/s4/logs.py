"""A count from logs: by keyed elements, guaranteed and not, and by the tree's GROUP BY, in turn on one fleet."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import elf
from benchmarks.agents import LIVE, live_logs, memory_folder, running_agents
from benchmarks.environment import use_two_cores
from benchmarks.events import Dataset, write_shop_events
from benchmarks.jobs.fleets import program, running_program, running_query
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.demo.agents.agents import AgentFleet

from .graphs import PROGRAMS
from .lines import beside

TREE, GUARANTEED, PLAIN = "the tree's GROUP BY", "guaranteed", "not guaranteed"
QUERY = f"SELECT product, COUNT(*) AS n FROM {LIVE} GROUP BY product WINDOWING 1 SECOND"
TARGET_LOGS, TARGET_GUARANTEED = 0.75, 0.6
LOG_BYTES = 4 << 30
SETTLE_S, POLL_S, TIMEOUT_S = 3.0, 0.02, 120.0


def run(agents: int, events: int, rounds: int, with_targets: bool) -> list[Comparison]:
    """Lets each of them read the same events, which are suddenly in the logs."""
    use_two_cores()
    rates: dict[str, list[float]] = {name: [] for name in (TREE, GUARANTEED, PLAIN)}
    with running_agents(agents, logs_below=memory_folder(LOG_BYTES)) as (fleet, folder, _):
        data = write_shop_events(folder / "events", events, files=agents)
        for number in range(rounds):
            with running_query(fleet, f"tree-{number}", QUERY):
                rates[TREE].append(_rate(fleet, folder, data, lambda: _read(fleet)))
            for name in (GUARANTEED, PLAIN):
                with _elements(fleet, f"{name.replace(' ', '-')}-{number}", name == GUARANTEED) as processed:
                    rates[name].append(_rate(fleet, folder, data, processed))
    place = f"{agents} agents"
    value, tree, guaranteed = (statistics.median(rates[name]) / 1e6 for name in (PLAIN, TREE, GUARANTEED))
    aims = (TARGET_LOGS, TARGET_GUARANTEED) if with_targets else (None, None)
    unit = "M events/s"
    return [
        beside(f"count from logs by elements: {place}", value, unit, TREE, tree, aims[0]),
        beside(f"count from logs by elements, guaranteed: {place}", guaranteed, unit, PLAIN, value, aims[1]),
        beside(f"count from logs by elements, guaranteed: {place}", guaranteed, unit, TREE, tree, None),
    ]


@contextmanager
def _elements(fleet: AgentFleet, app: str, guaranteed: bool) -> Iterator[Callable[[], int]]:
    """The count as elements; yields what tells how many events they have processed."""
    code = program("count_logs", PROGRAMS, GUARANTEED=guaranteed)
    with (
        running_program(fleet, app, code),
        elf.connect_sync(fleet.socket(fleet.names[0]), timeout_s=TIMEOUT_S) as client,
    ):
        yield lambda: sum(one.events for one in client.elements(app).elements)


def _read(fleet: AgentFleet) -> int:
    """Events of the stream that all agents have read since they began."""
    total = 0
    for name in fleet.names:
        with elf.connect_sync(fleet.socket(name)) as client:
            total += next(stream.events for stream in client.status().streams if stream.name == LIVE)
    return total


def _rate(fleet: AgentFleet, folder: Path, data: Dataset, counted: Callable[[], int]) -> float:
    """The events a second from the moment in which they are in the logs until all are counted."""
    time.sleep(SETTLE_S)
    contents = [path.read_bytes() for path in data.paths]
    before, logs = counted(), live_logs(fleet, folder)
    began = time.monotonic()
    for log, content in zip(logs, contents, strict=True):
        with log.open("ab") as file:
            file.write(content)
    while (found := counted() - before) < data.events:
        if time.monotonic() > began + TIMEOUT_S:
            raise BenchmarkError(f"{found:,} of {data.events:,} events are counted after {TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    return data.events / (time.monotonic() - began)
