"""A fleet of agent processes on one machine: how late windows come, how fast jobs start, what agents cost.

`python -m benchmarks.fleet [--quick] [--json FILE]`
"""

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import elf
from elf.client import ClientError
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet

from .agents import BACKLOG, LIVE, live_logs, memory_folder, running_agents, until_all_run, write_events
from .environment import use_two_cores
from .fleet_windows import GRACE_S, Printed, events_once, printed_windows
from .processes import cpu_s, usage
from .race import BenchmarkError
from .replay import Replay
from .report import Comparison, main, reaching, within

AGENTS = 8
MANY = 32
JOIN_TARGET_S = 20.0
MEMORY_TARGET_MB = 95.0
PEAK_TARGET_MB = 220.0
IDLE_TARGET_PERCENT = 1.0
CPU_TARGETS_S = {1: 0.7, AGENTS: 1.2}
"""CPU seconds for a million events, by the number of agents that read them."""
ACKNOWLEDGED_TARGET_MS = 200.0
SUSTAINED_LAG_S = 1.0
"""A rate is sustained if every window came within this time of when it was due."""
KEPT_UP_TARGET = 1.2
"""Million events a second that one agent keeps up with."""
LOG_BYTES = 12 << 30
"""Room for the logs of a run. They are in memory where it has that much: a disk takes less than one agent reads."""
SHARES = (0.9, 0.75, 0.6, 0.45, 0.3)
"""Of the speed at which a backlog is read: the live rates that are tried, the highest first."""
_SUBMIT_TIMEOUT_S = 10.0
_SETTLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    many: int
    idle_s: float
    submissions: int
    latency_s: float
    latency_rate: float
    backlog_events: int
    readings: int
    """Times that a backlog is read after the first."""
    live_s: float
    shares: Sequence[float]


FULL = Extent(MANY, 20.0, 30, 60.0, 2_000, 4_000_000, 3, 12.0, SHARES)
QUICK = Extent(0, 4.0, 10, 8.0, 2_000, 400_000, 1, 0.0, ())


def run(quick: bool) -> list[Comparison]:
    """Everything, in turn. Raises BenchmarkError when a fleet or a query does not work."""
    use_two_cores()
    extent = QUICK if quick else FULL
    lines: list[Comparison] = []
    try:
        if extent.many:
            _progress(f"{extent.many} agents: joining, idling")
            with running_agents(extent.many) as (fleet, _, took_s):
                time.sleep(_SETTLE_S)
                lines.append(_resident(fleet, "agents before their first query"))
                lines += _joining(fleet, took_s)
                lines += _idle(fleet, extent)
        _progress(f"{AGENTS} agents: submissions, latency")
        with running_agents(AGENTS) as (fleet, folder, _):
            lines += _submitting(fleet, extent)
            if not extent.many:
                lines += _idle(fleet, extent)
            lines += _latency(fleet, folder, extent)
        for agents in (1, AGENTS):
            _progress(f"{agents} of {AGENTS} agents: a backlog, live events")
            lines += _throughput(agents, extent)
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    return lines


def _progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _joining(fleet: AgentFleet, took_s: float) -> list[Comparison]:
    """Ready is not yet together: the time counts only if a query then reaches everybody."""
    agents = len(fleet.names)
    _submit(fleet, agents)
    return [within("fleet", f"start {agents} agents until all have joined", took_s, "s", JOIN_TARGET_S)]


def _idle(fleet: AgentFleet, extent: Extent) -> list[Comparison]:
    time.sleep(_SETTLE_S)
    pids = [fleet.process(name).pid for name in fleet.names]
    used_s = cpu_s(pids)
    time.sleep(extent.idle_s)
    percent = 100 * (cpu_s(pids) - used_s) / extent.idle_s / len(pids)
    return [
        _resident(fleet, "idle agents after a query"),
        within("fleet", f"CPU per agent, mean of {len(pids)} idle agents", percent, "% of a core", IDLE_TARGET_PERCENT),
    ]


def _resident(fleet: AgentFleet, which: str) -> Comparison:
    memory_mb = [usage(fleet.process(name).pid).memory_mb for name in fleet.names]
    case = f"resident memory, the largest of {len(memory_mb)} {which}"
    return within("fleet", case, max(memory_mb), "MB", MEMORY_TARGET_MB)


def _submitting(fleet: AgentFleet, extent: Extent) -> list[Comparison]:
    took_ms = sorted(_submit(fleet, AGENTS) for _ in range(extent.submissions))
    case = f"submit until {AGENTS} of {AGENTS} agents run the query"
    return [
        within("fleet", f"{case}, p50", statistics.median(took_ms), "ms", ACKNOWLEDGED_TARGET_MS),
        within("fleet", f"{case}, slowest of {len(took_ms)}", took_ms[-1], "ms"),
    ]


def _submit(fleet: AgentFleet, agents: int) -> float:
    """Submits a query and stops it once all agents run it; how long that took, in ms."""
    query = f"SELECT product, COUNT(*) FROM {LIVE} GROUP BY product WINDOWING 1 SECOND"
    with elf.connect_sync(fleet.socket(fleet.names[0])) as client:
        began = time.monotonic()
        with client.query(query) as job:
            until_all_run(job, agents, _SUBMIT_TIMEOUT_S)
            return 1000 * (time.monotonic() - began)


def _latency(fleet: AgentFleet, folder: Path, extent: Extent) -> list[Comparison]:
    with Replay(folder / "sample", live_logs(fleet, folder), extent.latency_rate):
        printed = _watch(fleet, "500 MILLISECONDS", extent.latency_s)
    _check_complete(printed)
    case = f"written to printed, {AGENTS} agents, {extent.latency_rate:,.0f} events/s, beyond window and grace"
    return [
        within("fleet", f"{case}, p50", printed.percentile_ms(50), "ms"),
        within("fleet", f"{case}, p99", printed.percentile_ms(99), "ms"),
    ]


def _watch(fleet: AgentFleet, window: str, seconds: float) -> Printed:
    """Runs a live query long enough for the windows of so many seconds to be printed."""
    query = f"SELECT product, SUM(clicks_count) AS clicks FROM {LIVE} GROUP BY product ORDER BY clicks DESC LIMIT 10"
    with printed_windows(fleet.socket(fleet.names[0]), f"{query} WINDOWING {window}") as printed:
        time.sleep(seconds + GRACE_S)
    return printed


def _check_complete(printed: Printed) -> None:
    if printed.incomplete or printed.late_events:
        raise BenchmarkError(f"{printed.incomplete} windows lacked agents, {printed.late_events} events were late")


def _throughput(agents: int, extent: Extent) -> list[Comparison]:
    """How fast a backlog is read, what that takes, and the highest rate near it that is kept up with live."""
    noun = f"{agents} agent{'s' if agents > 1 else ''}"
    with running_agents(agents, logs_below=memory_folder(LOG_BYTES)) as (fleet, folder, _):
        pids = [fleet.process(name).pid for name in fleet.names]
        write_events(folder, fleet.names, BACKLOG, extent.backlog_events)
        first = _read_backlog(fleet, pids, extent.backlog_events)
        warm = [_read_backlog(fleet, pids, extent.backlog_events) for _ in range(extent.readings)]
        rate = statistics.median(reading.rate for reading in warm)
        used_s = statistics.median(reading.cpu_s_per_million for reading in warm)
        target_s = CPU_TARGETS_S[agents] if extent.backlog_events >= FULL.backlog_events else None
        backlog = f"a backlog of {extent.backlog_events:,} events, {noun}"
        lines = [
            Comparison("fleet", backlog, rate / 1e6, "M events/s"),
            within("fleet", f"CPU per million events of {backlog}", used_s, "s", target_s),
            within("fleet", f"CPU per million events of their first query, {noun}", first.cpu_s_per_million, "s"),
        ]
        if extent.shares:
            lines.append(_sustained(fleet, folder, rate, extent, noun))
        peak_mb = max(usage(pid).memory_peak_mb for pid in pids)
        return [
            *lines,
            within("fleet", f"resident memory at its highest, {noun}", peak_mb, "MB per agent", PEAK_TARGET_MB),
        ]


@dataclass(frozen=True, slots=True)
class Reading:
    """A backlog read by a fleet: events a second from the start of `elf query` to its end, and what all agents used."""

    rate: float
    cpu_s_per_million: float


def _read_backlog(fleet: AgentFleet, pids: Sequence[int], events: int) -> Reading:
    query = f"SELECT product, SUM(clicks_count) AS clicks FROM {BACKLOG} GROUP BY product WINDOWING 30 SECONDS"
    used_s, began = cpu_s(pids), time.monotonic()
    counted = events_once(fleet.socket(fleet.names[0]), query)
    took_s = time.monotonic() - began
    if counted != events:
        raise BenchmarkError(f"the fleet counted {counted:,} events of {events:,}")
    return Reading(events / took_s, 1e6 * (cpu_s(pids) - used_s) / events)


def _sustained(fleet: AgentFleet, folder: Path, backlog_rate: float, extent: Extent, noun: str) -> Comparison:
    """The highest of the rates tried at which every window came in time, with everyone and everything in it."""
    case = f"live events kept up with, windows at most {SUSTAINED_LAG_S:g} s late, {noun}"
    kept_up = 0.0
    for share in extent.shares:
        with Replay(folder / f"sample-{share:g}", live_logs(fleet, folder), share * backlog_rate) as replay:
            began, written = time.monotonic(), replay.written
            printed = _watch(fleet, "1 SECOND", extent.live_s)
            rate = (replay.written - written) / (time.monotonic() - began)
        for path in live_logs(fleet, folder):
            path.unlink()  # a run writes several gigabytes
        worst_s = max(printed.late_ms, default=float("inf")) / 1000
        if worst_s <= SUSTAINED_LAG_S and not (printed.incomplete or printed.late_events):
            kept_up = rate / 1e6
            break
    if len(fleet.names) == 1:
        return reaching("fleet", case, kept_up, "M events/s", KEPT_UP_TARGET)
    return Comparison("fleet", case, kept_up, "M events/s")


if __name__ == "__main__":
    sys.exit(main("fleet", run))
