"""One agent on one core whose three jobs want more than that core: which events are in time, and whose (section 4).

The jobs are unlike: a count, one with many groups, and one whose code takes its time for each event. What an event
costs the agent and its program is measured while they keep up, and again under overload, since it costs less then: that
is the load as it was. Other processes of the machine may take a part of the core: capacity is what was left of it for
these two meanwhile, whether they have used it or not.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean

import elf
from benchmarks.agents import LIVE, live_logs, running_agents, until_all_run
from benchmarks.jobs.fleets import RunningProgram, program
from benchmarks.overlay.population import progress
from benchmarks.processes import cpu_s, idle_s
from benchmarks.race import BenchmarkError
from benchmarks.replay import Replay
from benchmarks.report import Comparison, reaching, throughput, within
from elf.client import ClientError
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet

NAME = "latency"
PROGRAMS = Path(__file__).parent / "programs"
LOADS = (1.3, 1.8)
CALM = 0.4
"""Load before and after an overload."""
PER_S = 6_000
"""Events a second while it is not known what one costs."""
PROBED = 0.6
"""Load, by what an event costs at that rate, at which it is measured again: it costs less where there are more."""
REACHED = 0.9
"""Least part of an aimed load from which on what becomes of it says something of schedulers."""
UTILITY_TARGET = 0.85
"""Least share of min(1, capacity/load) that is in time."""
RECOVERY_WINDOWS = 2
"""Windows after an overload that may still lack something."""
PARTIAL, LATE = "WITHIN 2 SECONDS ELSE PARTIAL", "WITHIN 2 SECONDS ELSE LATE"
_TIMED = "WINDOWING 1 SECOND GRACE 250 MILLISECONDS"
_QUERIES = {
    "count": f"SELECT COUNT(*) AS n FROM {LIVE} {_TIMED}",
    "users": f"SELECT user.id AS id, COUNT(*) AS n FROM {LIVE} GROUP BY user.id ORDER BY n DESC LIMIT 10 {_TIMED}",
}
CODED = "referers"
RIVAL = "FIFO"
"""The same agent whose jobs wait (ELSE LATE): everything is done, in the order of the log."""
WITHIN_SHARE = tuple(_QUERIES)
"""The jobs that want less than their share: the program wants more than all else."""
_SETTLE_S = 13.0
"""Time after which agents hand in."""
_MEASURE_S = 5.0
_START_S = 30.0
_LAST_S = 4.0
_CREATED = len('{"created_at":"')
_SECOND = len("2026-03-02T12:00:00")


@dataclass(frozen=True, slots=True)
class Extent:
    """How long an overload lasts, and the calm after it (s)."""

    overload_s: float
    calm_s: float


FULL, QUICK = Extent(30.0, 10.0), Extent(10.0, 6.0)


@dataclass(frozen=True, slots=True)
class Window:
    """A result: its start (s), events in it, those that came too late, whether it was in time, and whole."""

    start_s: float
    events: int
    late: int
    is_met: bool
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Phase:
    """A time that is to have a load (s of the wall clock), with the shares of the core that the agent has got, that its
    program has got, and that nobody has used."""

    load: float
    began_s: float
    ended_s: float
    agent: float
    program: float
    unused: float

    @property
    def capacity(self) -> float:
        """The share of the core that could have been used."""
        return self.agent + self.program + self.unused

    @property
    def seconds(self) -> range:
        """The whole seconds in it."""
        return range(int(self.began_s) + 1, int(self.ended_s))


@dataclass(slots=True)
class Measured:
    """What one agent has done: the windows of each job, the overloads, and the events written in each second."""

    windows: dict[str, list[Window]] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    written: Counter[int] = field(default_factory=Counter)

    def in_time(self, app: str, phase: Phase) -> float:
        """The share of what was written that was in a result of a job in time."""
        found = sum(one.events for one in self.windows[app] if one.is_met and one.start_s in phase.seconds)
        return found / max(1, sum(self.written[second] for second in phase.seconds))

    def load(self, phase: Phase) -> float:
        """The load as it was, in cores: what all events would take, by what those take that are done."""
        mapped = [one.events for one in self.windows[CODED] if one.start_s in phase.seconds]
        written = sum(self.written[second] for second in phase.seconds)
        return phase.agent + phase.program * max(1.0, written / max(1, sum(mapped)))

    def possible(self, phase: Phase) -> float:
        """The share of the events that the core could have done."""
        return min(1.0, phase.capacity / self.load(phase))

    def utility(self, phase: Phase) -> float:
        """The same of all jobs, of whom each wants all events."""
        return fmean(self.in_time(app, phase) for app in self.windows)

    def lost(self, phase: Phase) -> int:
        """Events of jobs within their share that were not in their window."""
        inside = [
            one for app in WITHIN_SHARE for one in self.windows[app] if phase.began_s <= one.start_s < phase.ended_s
        ]
        return sum(one.late for one in inside)

    def lacking_after(self, phase: Phase) -> int:
        """Windows, after those that may, that lack something though the load is over."""
        first = int(phase.ended_s) + 1 + RECOVERY_WINDOWS
        after = [one for every in self.windows.values() for one in every if first <= one.start_s < first + 2]
        return sum(not (one.is_met and one.is_whole) for one in after)


def overload(*, quick: bool = False) -> list[Comparison]:
    """The share of events in time under overload, and who loses. Raises BenchmarkError."""
    extent = QUICK if quick else FULL
    try:
        progress("one agent whose jobs do without what is late")
        chosen = _lived(extent, PARTIAL)
        progress("the same, whose jobs wait")
        patient = _lived(extent, LATE)
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    return [line for pair in zip(chosen.phases, patient.phases, strict=True) for line in _lines(chosen, patient, *pair)]


def _lines(chosen: Measured, patient: Measured, phase: Phase, fifo: Phase) -> Iterator[Comparison]:
    label = f"1 agent, 1 core, 3 jobs, load {phase.load:g}: "
    possible, rivals = chosen.possible(phase), patient.possible(fifo)
    load = chosen.load(phase)
    yield reaching(NAME, f"{label}load as it was", load, "cores", REACHED * phase.load)
    yield within(NAME, f"{label}capacity: what was left by others", 100 * phase.capacity, "% of the core")
    share = 100 * chosen.utility(phase) / possible
    in_time = f"{label}events in time, of min(1, capacity/load)"
    if load >= REACHED * phase.load:
        yield reaching(NAME, in_time, share, "%", 100 * UTILITY_TARGET)
    else:
        yield within(NAME, in_time, share, "%")
    yield within(NAME, f"{label}the same by {RIVAL}", 100 * patient.utility(fifo) / rivals, "%")
    share = 100 * chosen.in_time(CODED, phase) / possible
    yield within(NAME, f"{label}the same, of {CODED} alone, which wants the most", share, "%")
    for app in chosen.windows:
        share, rival = (100 * one.in_time(app, when) for one, when in ((chosen, phase), (patient, fifo)))
        yield throughput(NAME, f"{label}{app}, events in time", share, "%", RIVAL, max(0.1, rival), None)
    yield within(NAME, f"{label}lost by jobs within their share", chosen.lost(phase), "events", 0)
    yield within(NAME, f"{label}windows that lack something 2 windows later", chosen.lacking_after(phase), "windows", 0)


def _lived(extent: Extent, clause: str) -> Measured:
    """What an agent does that keeps up, then is overloaded, twice, each time with a calm after it."""
    found = Measured()
    with _pinned_agent() as (fleet, folder, core), ExitStack() as following:
        client = following.enter_context(elf.connect_sync(fleet.socket(fleet.names[0])))
        for app, query in _QUERIES.items():
            job = following.enter_context(client.query(f"{query} {clause}", app=app, detach=True))
            until_all_run(job, 1, _START_S)
        RunningProgram(fleet, client, CODED).submit(program(CODED, PROGRAMS, WITHIN=clause))
        for app in (*_QUERIES, CODED):
            found.windows[app] = []
            following.enter_context(_followed(fleet, app, found.windows[app]))
        run = _Run(fleet, folder, live_logs(fleet, folder), core)
        run.write(PER_S, _SETTLE_S)
        event_s = run.event_s(PROBED / run.event_s(PER_S))
        for load in LOADS:
            run.write(CALM / event_s, extent.calm_s)
            found.phases.append(run.phase(load, load / event_s, extent.overload_s))
        run.write(CALM / event_s, extent.calm_s)
        time.sleep(_LAST_S)
        found.written = _seconds_of(run.logs[0])
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """An agent whose log is written to."""

    fleet: AgentFleet
    folder: Path
    logs: Sequence[Path]
    core: int

    def write(self, per_s: float, seconds: float) -> tuple[float, float]:
        """Lets the log grow for a while; returns the CPU time that it takes the agent, and its program (s)."""
        agent, *programs = self._pids()
        with Replay(self.folder / "sample", self.logs, per_s):
            agent_s, program_s = cpu_s([agent]), cpu_s(programs)
            time.sleep(seconds)
            return cpu_s([agent]) - agent_s, cpu_s(programs) - program_s

    def event_s(self, per_s: float) -> float:
        """The CPU time of an event for the agent and its program at a rate with which they keep up (s)."""
        return sum(self.write(per_s, _MEASURE_S)) / (per_s * _MEASURE_S)

    def phase(self, load: float, per_s: float, seconds: float) -> Phase:
        """Lets the log grow at a rate that is to make this load."""
        progress(f"load {load:g}: {per_s:,.0f} events a second")
        began_s, unused_s = time.time(), idle_s(self.core)
        agent_s, program_s = self.write(per_s, seconds)
        unused = (idle_s(self.core) - unused_s) / seconds
        return Phase(load, began_s, time.time(), agent_s / seconds, program_s / seconds, unused)

    def _pids(self) -> list[int]:
        """The agent's process, and those that it has started."""
        pid = self.fleet.process(self.fleet.names[0]).pid
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [pid, *(int(child) for task in tasks for child in (task / "children").read_text().split())]


@contextmanager
def _pinned_agent() -> Iterator[tuple[AgentFleet, Path, int]]:
    """An agent, and its programs, on the last core; whoever writes and reads is on the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchmarkError("an agent on a core of its own needs a second one for those who write its log")
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, cores[-1:])
        fleet, folder, _ = stack.enter_context(running_agents(1))
        os.sched_setaffinity(0, cores[:-1])
        yield fleet, folder, cores[-1]


@contextmanager
def _followed(fleet: AgentFleet, app: str, windows: list[Window]) -> Iterator[None]:
    """Gathers the windows of a job."""
    is_over = threading.Event()

    def follow() -> None:
        with elf.connect_sync(fleet.socket(fleet.names[0])) as client, client.follow(app) as job:
            while not is_over.is_set():
                update = job.wait(0.5)
                if isinstance(update, elf.Result):
                    windows.append(_window(update.json))

    thread = threading.Thread(target=follow, name=app)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _window(line: bytes) -> Window:
    result = json.loads(line)
    start_s = datetime.fromisoformat(result["window_start"]).timestamp()
    is_whole = not result["partial"] and not result["late"] and result["contributors"] == 1
    return Window(start_s, result["events"], result["late"], bool(result.get("met")), is_whole)


def _seconds_of(log: Path) -> Counter[int]:
    """The number of events of each second in a log."""
    with log.open("rb") as lines:
        texts = Counter(line[_CREATED : _CREATED + _SECOND] for line in lines)
    return Counter({int(datetime.fromisoformat(f"{text.decode()}+00:00").timestamp()): n for text, n in texts.items()})
