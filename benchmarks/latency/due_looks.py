"""Agents that look at their logs when panes are due, against agents that look at the interval of polls alone.

Both read the same, at 2,000 events a second. GRACE is what ELF chooses under WITHIN, a quarter of the limit, so windows
are due between two polls: 75 ms before one. Where GRACE is a multiple of that interval there is nothing to gain.
"""

import time
from dataclasses import dataclass, field
from statistics import fmean

import elf
from benchmarks.agents import LIVE, live_logs, running_agents, until_all_run
from benchmarks.environment import use_two_cores
from benchmarks.fleet_windows import Printed, percentile_ms, printed_windows
from benchmarks.overlay.population import progress
from benchmarks.processes import cpu_s
from benchmarks.race import BenchmarkError
from benchmarks.replay import Replay
from benchmarks.report import Comparison, smaller
from elf.client import ClientError
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet

AGENTS = 8
EVENTS_PER_S = 2_000
WITHIN_MS, GRACE_MS = 500, 125
RATIO_TARGET = 1 / 0.55
"""The least by which windows are to come sooner."""
RIVAL = "polls alone"
_QUERY = f"SELECT product, SUM(clicks_count) AS clicks FROM {LIVE} GROUP BY product ORDER BY clicks DESC LIMIT 10"
_WINDOWS = f"{_QUERY} WINDOWING 500 MILLISECONDS WITHIN {WITHIN_MS} MILLISECONDS"
_IDLE = f"SELECT COUNT(*) FROM {LIVE} WINDOWING 1 SECOND GRACE 5025 MILLISECONDS"
_SETTLE_S = 3.0
_START_S = 20.0


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: fleets of each kind, which take turns, and seconds of windows and of rest in each."""

    fleets: int
    windows_s: float
    idle_s: float


FULL, QUICK = Extent(3, 30.0, 15.0), Extent(1, 10.0, 4.0)


@dataclass(slots=True)
class Measured:
    """What the fleets of one kind have shown: `late_ms`, by window, from its end and grace to when it was printed; the
    share of a core in percent that an agent takes meanwhile, and with a job whose log rests, in each fleet."""

    late_ms: list[float] = field(default_factory=list)
    lacking: int = 0
    late_events: int = 0
    busy_percent: list[float] = field(default_factory=list)
    idle_percent: list[float] = field(default_factory=list)

    def take(self, printed: Printed) -> None:
        """Adds the windows of a fleet."""
        self.late_ms += printed.late_ms
        self.lacking += printed.incomplete
        self.late_events += printed.late_events

    def percentile_ms(self, percentile: int) -> float:
        return percentile_ms(self.late_ms, percentile)


def due_looks(*, quick: bool = False) -> list[Comparison]:
    """The time from a window's end and grace to its print, and what looks take. Raises BenchmarkError."""
    use_two_cores()
    extent = QUICK if quick else FULL
    due, polls = Measured(), Measured()
    try:
        for number in range(2 * extent.fleets):
            is_due = number % 4 in (0, 3)
            progress(f"fleet {number + 1} of {2 * extent.fleets}: {'due looks' if is_due else RIVAL}")
            _measure(due if is_due else polls, extent, is_due=is_due)
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    case = f"window due to printed, {AGENTS} agents, {EVENTS_PER_S:,} events/s, windows of 500 ms"
    return [
        _line(f"{case}, p50", due.percentile_ms(50), "ms", polls.percentile_ms(50), RATIO_TARGET),
        _line(f"{case}, p99", due.percentile_ms(99), "ms", polls.percentile_ms(99)),
        _line(f"windows of {len(due.late_ms)} that lack an agent", due.lacking, "windows", polls.lacking),
        _line("events later than their grace", due.late_events, "events", polls.late_events),
        _line("CPU per agent meanwhile", fmean(due.busy_percent), "% of a core", fmean(polls.busy_percent)),
        _line(
            "CPU per agent whose log rests, panes of 1 s that are due between polls",
            fmean(due.idle_percent), "% of a core", fmean(polls.idle_percent),
        ),
    ]  # fmt: skip


def _line(case: str, value: float, unit: str, rival: float, target: float | None = None) -> Comparison:
    if not value:
        return Comparison("latency", case, value, unit, RIVAL, rival)
    return smaller("latency", case, value, unit, RIVAL, rival, target)


def _measure(found: Measured, extent: Extent, *, is_due: bool) -> None:
    with running_agents(AGENTS, settings=(("due_looks", is_due),)) as (fleet, folder, _):
        found.idle_percent.append(_idle(fleet, extent.idle_s))
        with (
            Replay(folder / "sample", live_logs(fleet, folder), EVENTS_PER_S),
            printed_windows(fleet.socket(fleet.names[0]), _WINDOWS, GRACE_MS / 1000) as printed,
        ):
            time.sleep(_SETTLE_S)
            found.busy_percent.append(_percent(fleet, extent.windows_s))
        found.take(printed)


def _idle(fleet: AgentFleet, seconds: float) -> float:
    """The CPU that an agent takes while its log rests, for long enough for polls to be rare."""
    with elf.connect_sync(fleet.socket(fleet.names[0])) as client, client.query(_IDLE) as job:
        until_all_run(job, AGENTS, _START_S)
        time.sleep(2 * _SETTLE_S)
        return _percent(fleet, seconds)


def _percent(fleet: AgentFleet, seconds: float) -> float:
    pids = [fleet.process(name).pid for name in fleet.names]
    used_s = cpu_s(pids)
    time.sleep(seconds)
    return 100 * (cpu_s(pids) - used_s) / seconds / len(pids)
