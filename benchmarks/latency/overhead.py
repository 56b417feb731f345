"""The cost of measuring how long results take, and of scheduling, to an agent that has as much to do as it can.

One agent reads a backlog through a live job, again and again; another one, which leaves panes unmeasured, reads the
same in turns. Compared are events in a second of a processor: other seconds are those of all that runs there.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import elf
from benchmarks.agents import BACKLOG, memory_folder, running_agents, write_events
from benchmarks.changed_agents import SCHEDULING_FILE, TIMED, UNMEASURED
from benchmarks.environment import use_two_cores
from benchmarks.overlay.population import progress
from benchmarks.processes import cpu_s
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, reaching, throughput, within
from elf.client import ClientError, Ended
from elf.demo import DemoError
from elf.demo.agents.agent_process import MODULE
from elf.demo.agents.agents import AgentFleet

RATIO_TARGET = 0.98
"""The least part of the events that an agent which does not measure can do."""
SCHEDULING_MAX = 1.0
"""Most that scheduling may take, in percent of the agent's processor time."""
LOG_BYTES = 2 << 30
_QUERY = (
    f"SELECT product, SUM(clicks_count) AS clicks FROM {BACKLOG} GROUP BY product"
    " ORDER BY clicks DESC LIMIT 10 WINDOWING 1 SECOND GRACE 0 SECONDS WITHIN 1 SECOND"
)
_PART = 0.99
"""Part of the events that is awaited: the last window stays open."""
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Extent:
    """The events of the backlog, and how often each agent reads it."""

    events: int
    readings: int


FULL, QUICK = Extent(1_000_000, 16), Extent(300_000, 6)


@dataclass(slots=True)
class Reader:
    """An agent that reads the backlog; `rates`: events in a second of its processor time, of each reading."""

    fleet: AgentFleet
    rates: list[float] = field(default_factory=list)

    def read(self, events: int) -> None:
        """Reads all of it once through a live job. Raises BenchmarkError."""
        name = self.fleet.names[0]
        pid, wanted, counted = self.fleet.process(name).pid, _PART * events, 0
        deadline = time.monotonic() + _TIMEOUT_S
        with elf.connect_sync(self.fleet.socket(name)) as client:
            used_s = cpu_s([pid])
            with client.query(_QUERY) as job:
                while counted < wanted:
                    update = job.wait(deadline - time.monotonic())
                    if update is None or isinstance(update, Ended):
                        raise BenchmarkError(f"an agent has counted {counted:,} events of {events:,} only")
                    counted += update.events if isinstance(update, elf.Result) else 0
                self.rates.append(counted / (cpu_s([pid]) - used_s))


def overhead(*, quick: bool = False) -> list[Comparison]:
    """What measuring and scheduling take. Raises BenchmarkError."""
    use_two_cores()
    extent = QUICK if quick else FULL
    try:
        return [*_measuring(extent), _scheduling(extent)]
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error


def _measuring(extent: Extent) -> Iterator[Comparison]:
    """Agents take turns, the first one of each pair by turns too; the first pair is not counted."""
    with (
        _reader(extent, MODULE) as measured,
        _reader(extent, UNMEASURED) as unmeasured,
    ):
        for number in range(extent.readings + 1):
            progress(f"reading {number} of {extent.readings}")
            for one in (measured, unmeasured) if number % 2 else (unmeasured, measured):
                one.read(extent.events)
        pairs = list(zip(measured.rates[1:], unmeasured.rates[1:], strict=True))
    case = f"events/s of a processor that only reads, {extent.events:,} events in 600 windows, phases measured"
    on, off = (median(rates) for rates in zip(*pairs, strict=True))
    yield throughput("latency", case, on / 1e6, "M events/s", "not measured", off / 1e6, None)
    ratio = median(one / other for one, other in pairs)
    yield reaching("latency", "the same, median of pairs", ratio, "of not measured", RATIO_TARGET)


def _scheduling(extent: Extent) -> Comparison:
    progress("scheduling")
    with ExitStack() as stack:
        reader = stack.enter_context(_reader(extent, TIMED))
        for _ in range(extent.readings // 2):
            reader.read(extent.events)
        folder, name = reader.fleet.directory, reader.fleet.names[0]
        reader.fleet.terminate(name)
        told = json.loads((folder / name / SCHEDULING_FILE).read_text())
    share = 100 * told["scheduling_s"] / told["process_s"]
    case = f"scheduling, of the processor time of an agent that only reads, {told['calls']:,} calls"
    return within("latency", case, share, "%", SCHEDULING_MAX)


@contextmanager
def _reader(extent: Extent, module: str) -> Iterator[Reader]:
    """An agent of its own fleet, with the backlog in its log."""
    below: Path | None = memory_folder(LOG_BYTES)
    with running_agents(1, logs_below=below, module=module) as (fleet, folder, _):
        write_events(folder, fleet.names, BACKLOG, extent.events)
        yield Reader(fleet)
