"""Predictions against agents that run: one setting of each fleet and query is measured, the others are held out
(Figures 6a, 6b, 6d, 6e).

What is measured at the first setting is what `elf latency` has of it, and becomes what is known of the query as where
EXPLAIN LATENCY predicts. A window's latency is that in its line: from its end to its publication.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import median

import elf
import query as ql
from agent.control.latency.measurements import known_of
from agent.control.observation.latency_entries import JobLatency
from benchmarks.agents import LIVE, live_logs, running_agents, until_all_run
from benchmarks.changed_agents import CUTS, CUTTING, UNPLANNED
from benchmarks.environment import use_two_cores
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.replay import Replay
from benchmarks.report import Comparison, within
from elf.client import ClientError, Ended, SyncClient, SyncJob
from elf.client.result import Result
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet
from query.latency import Distribution, Measured, Phase, Setting, anchored, phases_from_bytes, predict, total

from .accuracy import NAME, Bounds, Judged, Latency, errors_of, lines_of, percent_near

BOUNDS = Bounds(0.15, 0.2, 91.0, 86.0, papers_ratio=2.0)
FLEET = "agents"
WINDOW_MS, GRACE_MS = 250, 125
POLL_S = 0.1
"""Interval at which agents look at logs."""
WINDOWS_MIN = 300
AGAIN = 120
"""Windows of a setting that was measured, when it runs again behind those that are predicted from it."""
LIMIT = "WITHIN 30 SECONDS"
"""A limit that is far: it has lines tell of their latency."""
GROUPS = {"few": "store", "many": "user.id"}
"""Columns with 6 and with 100,000 values."""
BESIDE = ("user.lang", "user.location", "referer")
"""Columns of the jobs that run beside, which share no operator with it."""
_START_S = 60.0
_WARM_S = 5.0
_ENDED_S = 20.0


@dataclass(frozen=True, slots=True)
class RealSetting:
    """A fleet, what it does, and its knobs. `rate`: events a second of all agents. `jobs` that run at once, alike.
    `is_busy`: a process beside the agents does nothing but work. `due_looks`: agents look when panes are due. `cuts`:
    panes that a window is cut in."""

    agents: int
    groups: str = "few"
    rate: int = 1_000
    trees: int = 1
    due_looks: bool = True
    jobs: int = 1
    is_busy: bool = False
    cuts: int = 1

    @property
    def base(self) -> RealSetting:
        """The setting that is measured for this one."""
        return RealSetting(self.agents, self.groups, is_busy=self.is_busy)

    @property
    def label(self) -> str:
        """In words."""
        looks = "" if self.due_looks else ", polls alone"
        cuts = "" if self.cuts == 1 else f", {self.cuts} cuts"
        busy = ", a busy process" if self.is_busy else ""
        return (
            f"{self.agents} agents, {self.rate:,} events/s, {self.groups} groups, {self.trees} trees, "
            f"{self.jobs} jobs{looks}{cuts}{busy}"
        )


def _varied(base: RealSetting, *, few: bool = False) -> Iterator[RealSetting]:
    """Settings that are predicted from one."""
    yield replace(base, rate=2 * base.rate)
    yield replace(base, jobs=3)
    yield replace(base, due_looks=False)
    if base.agents > 1:
        yield replace(base, trees=2)
    if few:
        return
    yield replace(base, rate=base.rate // 2)
    yield replace(base, rate=2 * base.rate, due_looks=False)
    yield replace(base, cuts=CUTS)
    if base.agents > 1:
        yield replace(base, trees=4)


FULL = [
    *_varied(RealSetting(1)),
    *_varied(RealSetting(1, "many")),
    *_varied(RealSetting(1, is_busy=True), few=True),
    *_varied(RealSetting(8)),
    *_varied(RealSetting(8, "many")),
    *_varied(RealSetting(8, is_busy=True), few=True),
    *_varied(RealSetting(16)),
]
QUICK = [
    *_varied(RealSetting(1), few=True),
    *_varied(RealSetting(8), few=True),
    replace(RealSetting(8), cuts=CUTS),
    replace(RealSetting(1, is_busy=True), rate=2_000),
]


def model_real(*, quick: bool = False) -> list[Comparison]:
    """The errors of predictions of settings that were not measured. Raises BenchmarkError."""
    use_two_cores()
    tried = _Tried()
    try:
        for (agents, due_looks, cuts), alike in groupby(sorted(QUICK if quick else FULL, key=_order), key=_fleet):
            module = CUTTING if cuts > 1 else UNPLANNED
            settings = (("due_looks", due_looks),)
            with running_agents(agents, settings=settings, module=module) as (fleet, folder, _):
                _try_all([*alike], _Bench(fleet, folder), tried)
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    return tried.lines()


@dataclass(slots=True)
class _Tried:
    """All that was measured. `summed`: the same settings, predicted by the sum of their phases alone."""

    known: dict[RealSetting, Measured] = field(default_factory=dict)
    judged: list[Judged] = field(default_factory=list)
    summed: list[Judged] = field(default_factory=list)
    again: list[Judged] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def lines(self) -> list[Comparison]:
        """The lines of the report."""
        load = f"{FLEET}, greatest load of the machine of {os.cpu_count()} processors meanwhile"
        drift = f"{FLEET}, settings that were measured, run again, median error"
        plain = f"{FLEET}, {len(self.summed)} settings, by the sum of phases alone, whose"
        found = [within(NAME, load, max(self.loads), "processes")]
        for name, what, most in (("mean", "mean", BOUNDS.mean), ("p99", "quantile", BOUNDS.quantile)):
            near = percent_near(errors_of(self.summed, what), most)
            found += [
                within(NAME, f"{drift}: {name}", 100 * median(errors_of(self.again, what)), "%"),
                Comparison(NAME, f"{plain} {name} is within {most:.0%}", near, "% of settings"),
            ]
        return [*found, *lines_of(FLEET, self.judged, BOUNDS)]


def _try_all(settings: Sequence[RealSetting], bench: _Bench, tried: _Tried) -> None:
    """Measures the bases of the first fleet of so many agents, and judges each setting behind the one that it is
    predicted from."""
    for base, alike in groupby(settings, key=lambda one: one.base):
        is_first = base not in tried.known
        if is_first:
            tried.known[base] = bench.measure(base)
        for one in alike:
            judged, summed = bench.judge(one, tried.known[base])
            tried.judged.append(judged)
            tried.summed.append(summed)
            tried.loads.append(os.getloadavg()[0])
        if is_first:
            tried.again.append(bench.judge(base, tried.known[base], AGAIN)[0])


def _fleet(one: RealSetting) -> tuple[int, bool, int]:
    return one.agents, one.due_looks, one.cuts


def _order(one: RealSetting) -> tuple[int, bool, int, str, bool]:
    """Fleets of agents with due looks that cut nothing come first: they measure what the others are predicted from."""
    return one.agents, not one.due_looks, one.cuts, one.groups, one.is_busy


class _Bench:
    """A fleet that runs."""

    def __init__(self, fleet: AgentFleet, folder: Path) -> None:
        self._fleet, self._folder = fleet, folder

    def measure(self, base: RealSetting) -> Measured:
        """All that is known of a query by its own measurements."""
        progress(f"measured first, {base.label}: load {os.getloadavg()[0]:.1f}")
        with self._running(base) as (client, job):
            latencies = _latencies(job, 2 * WINDOWS_MIN)
            told = client.latency(job.app)
        _show(told)
        plan = ql.analyze(ql.parse(text_of(base, GROUPS[base.groups])), {LIVE: ql.Schema({}, open=True)})
        known = known_of(plan, told, base.agents, is_same=True)
        return anchored(known, Distribution.of_samples(latencies))

    def judge(self, one: RealSetting, known: Measured, windows: int = WINDOWS_MIN) -> tuple[Judged, Judged]:
        """A prediction, and the one by the sum of phases alone, and then what comes of them."""
        setting = Setting(GRACE_MS / 1000, POLL_S, on_due=one.due_looks, cuts=one.cuts, trees=one.trees)
        expected = known if one.jobs == 1 else beside_others(known, one.jobs - 1)
        rate = known.rate * one.rate / one.base.rate
        found = predict(setting, expected, 0.99, rate)
        plain = predict(setting, replace(expected, mean_factor=1.0, spread_factor=1.0), 0.99, rate)
        judged = Judged.before(one.label, found, one.agents, expected.groups.groups(rate * expected.pane))
        try:
            with self._running(one) as (client, job):
                latencies = _latencies(job, windows)
                told = client.latency(job.app)
        except BenchmarkError as error:
            progress(f"lost, {one.label}: {error}")
            judged.after(Latency(math.inf, math.inf), {})
        else:
            paths = phases_from_bytes(told.path_statistics)
            judged.after(Latency.of(latencies), {phase: one.mean for phase, one in paths.items() if one.count})
        summed = replace(judged, predicted=Latency(plain.mean, plain.quantile))
        off = ", ".join(f"{summed.error(summed.predicted, what):+.1%}" for what in ("mean", "quantile"))
        progress(f"  by the sum of phases alone {off}; load {os.getloadavg()[0]:.1f}")
        return judged, summed

    @contextmanager
    def _running(self, one: RealSetting) -> Iterator[tuple[SyncClient, SyncJob]]:
        """Jobs that run on all agents, which have settled; the last one that was submitted."""
        logs = live_logs(self._fleet, self._folder)
        with ExitStack() as running:
            if one.is_busy:
                running.enter_context(_busy_process())
            running.enter_context(Replay(self._folder / "sample", logs, one.rate))
            client = running.enter_context(elf.connect_sync(self._fleet.socket(self._fleet.names[0])))
            for column in (*BESIDE[: one.jobs - 1], GROUPS[one.groups]):
                job = running.enter_context(client.query(text_of(one, column)))
                until_all_run(job, one.agents, _START_S)
            _latencies(job, round(_WARM_S * 1000 / WINDOW_MS))
            yield client, job


def text_of(one: RealSetting, column: str) -> str:
    """The query of a setting, over the groups of a column."""
    return (
        f"SELECT {column} AS kind, COUNT(*) AS events, SUM(clicks_count) AS clicks FROM {LIVE} GROUP BY {column} "
        f"ORDER BY clicks DESC LIMIT 10 WINDOWING {WINDOW_MS} MILLISECONDS GRACE {GRACE_MS} MILLISECONDS "
        f"{LIMIT} TREES {one.trees}"
    )


def beside_others(known: Measured, others: int) -> Measured:
    """Adds so many queries like it to one that is known: their panes end together, so agents seal theirs and the master
    finishes theirs before."""
    classes = []
    for one in known.classes:
        seal, waited = one.phases.get(Phase.SEAL), one.phases.get(Phase.SEAL_WAIT)
        phases = {phase: told for phase, told in one.phases.items() if phase is not Phase.SEAL_WAIT}
        before = [] if seal is None else [seal] * others
        classes.append(replace(one, phases=phases, sealed_before=[*before, *([] if waited is None else [waited])]))
    finish = known.phases.get(Phase.FINISH)
    behind = {} if finish is None else {Phase.FINISH: total([finish] * (1 + others))}
    return replace(known, classes=tuple(classes), phases={**known.phases, **behind})


def _latencies(job: SyncJob, windows: int) -> Sequence[float]:
    """The latency of the next windows (s). Raises BenchmarkError where they do not come."""
    found: list[float] = []
    while len(found) < windows:
        update = job.wait(_ENDED_S)
        if update is None or isinstance(update, Ended):
            raise BenchmarkError(f"no window within {_ENDED_S:g} s")
        if isinstance(update, Result) and (told := json.loads(update.json).get("latency_ms")) is not None:
            found.append(told / 1000)
    return found


@contextmanager
def _busy_process() -> Iterator[None]:
    """A process that takes all of a processor that it gets."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(1.0)
        yield
    finally:
        process.kill()
        process.wait()


def _show(told: JobLatency) -> None:
    means = {one.what: one.mean_ms for one in told.phases}
    progress(" mean ms on the way of the last part: " + ", ".join(f"{what} {ms:.1f}" for what, ms in means.items()))
