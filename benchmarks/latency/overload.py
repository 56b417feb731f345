"""One agent on one core whose three jobs want more than that core: which events are in time, and whose (section 4).

The jobs are unlike: a count, one with many groups, and one whose code takes its time for each event. Other processes of
the machine may take a part of the core: capacity is what is left of it for the agent and its program. Both change, and
so does what an event costs, which is less where more come at once: so the rate follows them, and the load stays what it
is to be. That is what all events would take, over capacity: the agent what it has taken, and its program as much for
each event as it has taken at best, so that what it does for nothing is not counted.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import BinaryIO, NamedTuple

import elf
from benchmarks.agents import LIVE, live_logs, running_agents, until_all_run
from benchmarks.changed_agents import EDF as EDF_AGENT
from benchmarks.changed_agents import ROOMY
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
"""Events a second of which the first ones are."""
TRIED_S, TRIES = 6.0, 3
"""How long, and how often, a load of 1 is made to learn what an event costs."""
STEP_S = 2.0
"""Time after which the rate follows what is measured."""
MADE_UP_S = 10.0
"""Time in which events that a load lacks so far are made up for: no sooner, as a burst would be a load of its own."""
STEP_MAX = 1.5
"""Upper bound on the multiple of a rate, and on its part, that is next."""
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
FIFO, EDF = "FIFO", "EDF"
"""Rivals: the same agent whose jobs wait (ELSE LATE), so that everything is done in the order of the log, and the same
one that leaves out only what is late already (`changed_agents/edf.py`)."""
WITHIN_SHARE = tuple(_QUERIES)
"""The jobs that want less than their share: the program wants more than all else."""
_SETTLE_S = 13.0
"""Time after which agents hand in."""
_START_S = 30.0
_LAST_S = 4.0
_CREATED = len('{"created_at":"')
_SECOND = len("2026-03-02T12:00:00")


@dataclass(frozen=True, slots=True)
class Extent:
    """How long an overload lasts, and the calm after it (s)."""

    overload_s: float
    calm_s: float


FULL, QUICK = Extent(30.0, 20.0), Extent(10.0, 6.0)


@dataclass(frozen=True, slots=True)
class Window:
    """A result: its start (s), events in it, those that came too late, whether it was in time, and whole."""

    start_s: float
    events: int
    late: int
    is_met: bool
    is_whole: bool


class CoreTime(NamedTuple):
    """Time of the core, in seconds or as shares of all of it: that of the agent, of its program, and of nobody."""

    agent: float
    program: float
    unused: float

    @property
    def capacity(self) -> float:
        """The time that could have been used."""
        return self.agent + self.program + self.unused


@dataclass(frozen=True, slots=True)
class Phase:
    """A time that is to have a load (s of the wall clock), with the shares of the core meanwhile."""

    load: float
    began_s: float
    ended_s: float
    core: CoreTime

    @property
    def seconds(self) -> range:
        """The whole seconds in it."""
        return range(int(self.began_s) + 1, int(self.ended_s))


@dataclass(slots=True)
class Measured:
    """What one agent has done: the windows of each job, the overloads, those that were tried before, and the events
    written in each second. `calm_s`: the time after each overload in which there is none."""

    calm_s: float
    windows: dict[str, list[Window]] = field(default_factory=dict)
    tried: list[Phase] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    written: Counter[int] = field(default_factory=Counter)

    def events(self, phase: Phase) -> int:
        """The events that were written."""
        return sum(self.written[second] for second in phase.seconds)

    def in_time(self, app: str, phase: Phase) -> float:
        """The share of what was written that was in a result of a job in time."""
        found = sum(one.events for one in self.windows[app] if one.is_met and one.start_s in phase.seconds)
        return found / max(1, self.events(phase))

    def event_s(self, phase: Phase) -> float:
        """The time of the core that an event takes: its agent in a phase, and the program at best (s)."""
        return phase.core.agent * len(phase.seconds) / max(1, self.events(phase)) + self.mapped_s

    @property
    def mapped_s(self) -> float:
        """The time of the core that an event takes the program at best, by what has come of it (s)."""
        return min(map(self._mapped_s, (*self.tried, *self.phases)))

    def _mapped_s(self, phase: Phase) -> float:
        mapped = sum(one.events for one in self.windows[CODED] if one.start_s in phase.seconds)
        return phase.core.program * len(phase.seconds) / max(1, mapped)

    def load(self, phase: Phase, event_s: float) -> float:
        """The load as it was, over capacity, where an event takes so long."""
        return self.events(phase) * event_s / len(phase.seconds) / phase.core.capacity

    def utility(self, phase: Phase) -> float:
        """The same as `in_time` of all jobs, of whom each wants all events."""
        return fmean(self.in_time(app, phase) for app in self.windows)

    def lost(self, phase: Phase) -> int:
        """Events of jobs within their share that were not in their window, those of windows that never came too."""
        return sum(self._lost(app, second) for app in WITHIN_SHARE for second in phase.seconds)

    def _lost(self, app: str, second: int) -> int:
        windows = [one for one in self.windows[app] if one.start_s == second]
        return sum(one.late for one in windows) if windows else self.written[second]

    def lacking_after(self, phase: Phase) -> int:
        """Windows, from the first that may not on until the next overload, that lack something or never came."""
        whole = {
            (app, one.start_s) for app, ones in self.windows.items() for one in ones if one.is_met and one.is_whole
        }
        after = range(int(phase.ended_s) + 1 + RECOVERY_WINDOWS, int(phase.ended_s + self.calm_s))
        return sum((app, second) not in whole for app in self.windows for second in after)


def overload(*, quick: bool = False) -> list[Comparison]:
    """The share of events in time under overload, and who loses. Raises BenchmarkError."""
    extent = QUICK if quick else FULL
    try:
        progress("one agent whose jobs do without what is late")
        chosen = _lived(extent, PARTIAL)
        costs_s = {phase.load: chosen.event_s(phase) for phase in (*chosen.tried, *chosen.phases)}
        progress("the same, whose jobs wait")
        patient = _lived(extent, LATE, costs_s)
        progress("the same, by deadline alone")
        by_deadline = _lived(extent, PARTIAL, costs_s, EDF_AGENT)
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    rivals = {FIFO: patient, EDF: by_deadline}
    return [line for number in range(len(LOADS)) for line in _lines(chosen, rivals, number)]


def _lines(chosen: Measured, rivals: Mapping[str, Measured], number: int) -> Iterator[Comparison]:
    """The lines of one load."""
    phase = chosen.phases[number]
    event_s = chosen.event_s(phase)
    load, label = chosen.load(phase, event_s), f"1 agent, 1 core, 3 jobs, load {phase.load:g}: "
    per_s = chosen.events(phase) / len(phase.seconds)
    yield reaching(NAME, f"{label}load as it was", load, "x capacity", REACHED * phase.load)
    yield within(NAME, f"{label}events a second", per_s, "events/s")
    yield within(NAME, f"{label}capacity: what was left by others", 100 * phase.core.capacity, "% of the core")
    share = 100 * chosen.utility(phase) * max(1.0, load)
    in_time = f"{label}events in time, of min(1, capacity/load)"
    if load >= REACHED * phase.load:
        yield reaching(NAME, in_time, share, "%", 100 * UTILITY_TARGET)
    else:
        yield within(NAME, in_time, share, "%")
    share = 100 * chosen.in_time(CODED, phase) * max(1.0, load)
    yield within(NAME, f"{label}the same, of {CODED} alone, which wants the most", share, "%")
    for rival, measured in rivals.items():
        then = measured.phases[number]
        rivals_load = measured.load(then, event_s)
        share = 100 * measured.utility(then) * max(1.0, rivals_load)
        yield within(NAME, f"{label}the same by {rival}", share, "%")
        yield within(NAME, f"{label}load of {rival}, as it was", rivals_load, "x capacity")
    for app in chosen.windows:
        for rival, measured in rivals.items():
            shares = [100 * one.in_time(app, one.phases[number]) for one in (chosen, measured)]
            yield throughput(NAME, f"{label}{app}, events in time", shares[0], "%", rival, max(0.1, shares[1]), None)
    yield within(NAME, f"{label}lost by jobs within their share", chosen.lost(phase), "events", 0)
    yield within(NAME, f"{label}windows that lack something 2 windows later", chosen.lacking_after(phase), "windows", 0)


def _lived(extent: Extent, clause: str, costs_s: Mapping[float, float] | None = None, module: str = ROOMY) -> Measured:
    """Overloads an agent once for each load, each time with a calm after it. `costs_s`: the time that an event takes at
    each load, a load of 1 too; without them, it is learned."""
    found = Measured(extent.calm_s)
    with _pinned_agent(module) as (fleet, folder, core), ExitStack() as following:
        client = following.enter_context(elf.connect_sync(fleet.socket(fleet.names[0])))
        for app, query in _QUERIES.items():
            job = following.enter_context(client.query(f"{query} {clause}", app=app, detach=True))
            until_all_run(job, 1, _START_S)
        RunningProgram(fleet, client, CODED).submit(program(CODED, PROGRAMS, WITHIN=clause))
        for app in (*_QUERIES, CODED):
            found.windows[app] = []
            following.enter_context(_followed(fleet, app, found.windows[app]))
        (log,) = live_logs(fleet, folder)
        run = _Run(fleet, folder, log, core, found, following.enter_context(log.open("rb")), costs_s or {})
        events, used = run.write(PER_S, _SETTLE_S)
        run.learn(used.program / events)
        for load in LOADS:
            run.calm(extent.calm_s)
            found.phases.append(run.phase(load, extent.overload_s))
        run.calm(extent.calm_s)
        time.sleep(_LAST_S)
        run.count()
    return found


@dataclass(slots=True)
class _Run:
    """An agent whose log is written to, and read again to count what was written. `costs_s`: the time of the core that
    an event takes at each load, where it is known; `full_per_s`: events a second that made a load of 1 last."""

    fleet: AgentFleet
    folder: Path
    log: Path
    core: int
    found: Measured
    lines: BinaryIO
    costs_s: Mapping[float, float]
    mapped_s: float = 0.0
    full_per_s: float = PER_S

    def learn(self, mapped_s: float) -> None:
        """Learns what an event takes the program, from what is known of few."""
        self.mapped_s = mapped_s
        for _ in range(TRIES):
            self.found.tried.append(self.phase(1.0, TRIED_S))
            self.calm(_LAST_S)
            self.count()
            self.mapped_s = self.found.mapped_s

    def calm(self, seconds: float) -> None:
        """Lets the log grow more slowly."""
        self.write(CALM * self.full_per_s, seconds)

    def phase(self, load: float, seconds: float) -> Phase:
        """Lets the log grow at rates that make this load."""
        began_s, per_s, written, used = time.time(), load * self.full_per_s, 0, CoreTime(0.0, 0.0, 0.0)
        progress(f"load {load:g}: {per_s:,.0f} events a second")
        while time.time() < began_s + seconds:
            events, step = self.write(per_s, STEP_S)
            written, used = written + events, CoreTime(*map(sum, zip(used, step, strict=True)))
            event_s = self.costs_s.get(load) or used.agent / written + self.mapped_s
            self.full_per_s = _near(step.capacity / STEP_S / event_s, self.full_per_s)
            lacking = load * used.capacity / event_s - written
            per_s = _near(load * self.full_per_s + lacking / MADE_UP_S, load * self.full_per_s)
        seconds = time.time() - began_s
        return Phase(load, began_s, began_s + seconds, CoreTime(*(one / seconds for one in used)))

    def write(self, per_s: float, seconds: float) -> tuple[int, CoreTime]:
        """Lets the log grow for a while; returns the events that were written, and seconds of the core."""
        agent, *programs = self._pids()
        with Replay(self.folder / "sample", [self.log], per_s) as replay:
            agent_s, program_s, unused_s = cpu_s([agent]), cpu_s(programs), idle_s(self.core)
            time.sleep(seconds)
            try:
                agent_s, program_s = cpu_s([agent]) - agent_s, cpu_s(programs) - program_s
            except FileNotFoundError:
                raise BenchmarkError("the program of a job has ended under load") from None
            return max(1, replay.written), CoreTime(agent_s, program_s, idle_s(self.core) - unused_s)

    def count(self) -> None:
        """Counts what was written since it was counted last, by the second."""
        texts = Counter(line[_CREATED : _CREATED + _SECOND] for line in self.lines)
        for text, events in texts.items():
            self.found.written[int(datetime.fromisoformat(f"{text.decode()}+00:00").timestamp())] += events

    def _pids(self) -> list[int]:
        """The agent's process, and those that it has started."""
        pid = self.fleet.process(self.fleet.names[0]).pid
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [pid, *(int(child) for task in tasks for child in (task / "children").read_text().split())]


def _near(per_s: float, before: float) -> float:
    """A rate that is not too far from another one."""
    return min(max(per_s, before / STEP_MAX), before * STEP_MAX)


@contextmanager
def _pinned_agent(module: str) -> Iterator[tuple[AgentFleet, Path, int]]:
    """An agent, and its programs, on the last core; whoever writes and reads is on the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchmarkError("an agent on a core of its own needs a second one for those who write its log")
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, cores[-1:])
        fleet, folder, _ = stack.enter_context(running_agents(1, module=module))
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
