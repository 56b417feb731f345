"""Sealed panes on disk before they leave: what that costs, alone and with copies on two other agents."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import AgentObserver
from agent.daemon.sealed_files import SealedFiles
from agent.runtime.copies.service import HOLDERS
from agent.runtime.durable.journal import SealedJournal
from agent.runtime.durable.outlet import RunOutlet
from agent.runtime.durable.read_progress import ReadProgress
from agent.runtime.ingest.panes.pane_log import PaneLog
from benchmarks.jobs.paper_load import PAUSE_S, Posts
from benchmarks.jobs.simulated_agents import SimulatedAgents, without_collector
from benchmarks.overlay.lines import quantile
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison, smaller, throughput
from elf.demo.agents.agent_process import Settings

from .lines import NAME, at_most
from .replicas import LOOP_AGENTS, LOOP_QUERY, LOOP_TARGET_MS, SPEED_TARGET, WARM_S, count

NEITHER, ON_DISK, BOTH = "neither", "on disk", "on disk and copied"
WAYS: dict[str, Settings] = {
    NEITHER: (("sealed_disk", "none"), ("copies", 0)),
    ON_DISK: (("copies", 0),),
    BOTH: (("copies", HOLDERS),),
}
ROOM = 1 << 30


def run(agents: int, events: int, rounds: int) -> list[Comparison]:
    """A live job reads a backlog, with sealed panes on disk, copied as well, and neither, in turn; the medians are
    compared."""
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    cpu: dict[str, list[float]] = {way: [] for way in WAYS}
    pane_bytes: list[float] = []
    for number in range(rounds):
        for way in WAYS if number % 2 else reversed(WAYS):
            speed, used_s, written = count(agents, events, WAYS[way], "sealed.written_bytes")
            progress(f"{way}: {speed:,.0f} events/s, {used_s:.1f} CPU-s, {written:,.0f} bytes a pane")
            speeds[way].append(speed)
            cpu[way].append(1e6 * used_s / events)
            if way == ON_DISK:
                pane_bytes.append(written)
    lines = []
    for way, target in ((ON_DISK, None), (BOTH, SPEED_TARGET)):
        case = f"sealed panes {way}: live over a backlog of {events:,} events, {agents} agents"
        found, rival = (statistics.median(speeds[one]) / 1e6 for one in (way, NEITHER))
        lines.append(throughput(NAME, case, found, "M events/s", NEITHER, rival, target))
        found, rival = (statistics.median(cpu[one]) for one in (way, NEITHER))
        lines.append(smaller(NAME, f"{case}, CPU per million events", found, "s", NEITHER, rival, target))
    what = f"bytes that an agent writes a pane, {agents} agents, backlog of {events:,} events"
    return [*lines, at_most(what, statistics.median(pane_bytes), "bytes")]


class _DiskObserver(AgentObserver):
    @property
    def keeps_sealed(self) -> bool:
        return True


@without_collector()
def run_loop(panes: int) -> list[Comparison]:
    """What the loops of agents do for the disk, by the clock of their thread, and how long the disk takes beside."""
    with _metered() as meter, tempfile.TemporaryDirectory(prefix="elf-bench-") as folder:
        fleet = SimulatedAgents(1, LOOP_AGENTS, observer=_DiskObserver())
        disks = [SealedFiles(Path(folder) / agent.name, 1, ROOM, _fail) for agent in fleet.agents]
        fleet.run_job(LOOP_QUERY, "durable")
        posts, took_s = Posts(1), list[float]()
        _log_for(fleet, posts, disks, WARM_S, took_s)
        spent_s, written = meter.spent_s, sum(disk.written_bytes for disk in disks)
        took_s.clear()
        _log_for(fleet, posts, disks, float(panes), took_s)
        written = sum(disk.written_bytes for disk in disks) - written
    spent_ms = 1000 * (meter.spent_s - spent_s) / panes / LOOP_AGENTS
    case = f"an agent and pane, simulated, {LOOP_AGENTS} agents, {panes} panes"
    return [
        at_most(f"loop for sealed panes on disk, {case}", spent_ms, "ms", LOOP_TARGET_MS),
        at_most(f"bytes written for {case}", written / panes / LOOP_AGENTS, "bytes"),
        at_most(f"encoding, writing and flushing beside the loop, p50, {case}", 1000 * quantile(took_s, 0.5), "ms"),
    ]


def _log_for(
    fleet: SimulatedAgents, posts: Posts, disks: list[SealedFiles], seconds: float, took_s: list[float]
) -> None:
    for _ in range(round(seconds / PAUSE_S)):
        fleet.insert(lambda _number, feed: posts.read(feed, fleet.wall_ms))
        fleet.run(PAUSE_S)
        for agent, disk in zip(fleet.agents, disks, strict=True):
            if not agent.ingest.journal.is_urgent:
                continue
            records = agent.ingest.journal.take()
            began = time.perf_counter()
            disk.write(None, records)
            took_s.append(time.perf_counter() - began)
            agent.sealed_stored(len(records), fleet.now, fleet.wall_ms, are_kept=True)


def _fail(what: str, why: str) -> None:
    raise AssertionError(f"{what}: {why}")


@dataclass(slots=True)
class _Meter:
    """Seconds of the thread for the disk's sake. What leaves would leave without a disk as well: it is left out."""

    spent_s: float = 0.0

    def wrap(self, do: Callable[..., Any], sign: int) -> Callable[..., Any]:
        def metered(*about: Any, **more: Any) -> Any:
            began = time.thread_time()
            try:
                return do(*about, **more)
            finally:
                self.spent_s += sign * (time.thread_time() - began)

        return metered


@contextmanager
def _metered() -> Iterator[_Meter]:
    meter = _Meter()
    held = PaneLog.held
    actions = [(SealedJournal, name, 1) for name in ("seal", "take", "stored", "tick")]
    actions += [(ReadProgress, "end_block", 1), (RunOutlet, "_let_go", -1)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in actions]
    for owner, name, sign in actions:
        setattr(owner, name, meter.wrap(getattr(owner, name), sign))
    assert held.fget is not None
    PaneLog.held = property(meter.wrap(held.fget, 1))  # type: ignore[method-assign, assignment]
    try:
        yield meter
    finally:
        for owner, name, do in before:
            setattr(owner, name, do)
        PaneLog.held = held  # type: ignore[method-assign]
