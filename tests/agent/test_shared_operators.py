"""What equal jobs count once is, window for window, what each would count by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_fleet import COUNT, WALL_MS, Fleet, events
from recording_client import client_of

import query
from agent import Update
from agent.parsing import Parsed
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.operator import PaneConsumer
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.panes import pane_log
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.incomplete import Publication
from agent.runtime.model.panes import FIRST_PANE, Run
from overlay import Id, app_id

FEW = COUNT.replace("GROUP BY", "WHERE page = '/' GROUP BY")
EQUAL = (
    COUNT,
    COUNT.replace(" WINDOWING", " ORDER BY n DESC LIMIT 1 WINDOWING"),
    COUNT.replace("COUNT(*) AS n", "COUNT(*) * 2 AS twice"),
    f"{COUNT} WITHIN 30 SECONDS AT 95 PERCENT",
)
QUERIES = (
    *EQUAL,
    COUNT.replace("1 SECOND", "2 SECONDS"),
    FEW,
    FEW.replace(" WINDOWING", " LIMIT 1 WINDOWING"),
    "SELECT product, page FROM web ORDER BY page, product LIMIT 2 WINDOWING 1 SECOND",
    "SELECT product, page FROM web ORDER BY page, product LIMIT 3 WINDOWING 1 SECOND",
)
GRACES_MS = (0, 1000)


def raise_again(_job: Id, error: BaseException) -> None:
    raise error


@dataclass(frozen=True)
class Block:
    """Events by how long before now they happened (ms), and how many lines are none."""

    ages_ms: tuple[int, ...]
    malformed: int

    def parsed(self, wall_ms: int) -> Parsed:
        times = pl.Series([wall_ms - age for age in self.ages_ms], dtype=pl.Int64)
        products = pl.Series(["abc"[age % 3] for age in self.ages_ms], dtype=pl.String)
        pages = pl.Series(["/", "/x"][age % 2] for age in self.ages_ms).cast(pl.String)
        frame = pl.DataFrame({"@time": times, "product": products, "page": pages})
        return Parsed((frame,), malformed=self.malformed)


@dataclass(frozen=True)
class Begin:
    job: int
    text: str
    grace_ms: int


@dataclass(frozen=True)
class Change:
    job: int
    text: str


@dataclass(frozen=True)
class End:
    job: int


Step = tuple[float, Block | Begin | Change | End | None]
"""Seconds to wait, and what happens then; None: the agent has read everything."""

BLOCKS = st.builds(
    Block,
    st.lists(st.integers(-1500, 4000), min_size=1, max_size=5).map(tuple),
    st.sampled_from((0, 0, 1)),
)


@st.composite
def stories(draw: st.DrawFn) -> list[Step]:
    jobs, begun = draw(st.integers(2, 5)), 0
    queries = st.sampled_from(draw(st.sampled_from((EQUAL, QUERIES))))
    steps: list[Step] = []
    for _ in range(draw(st.integers(8, 40))):
        pause = draw(st.sampled_from((0.0, 0.0, 0.1, 0.4, 1.1)))
        kind = draw(st.sampled_from(("block", "block", "block", "read", "begin", "change", "end")))
        if kind == "block":
            steps.append((pause, draw(BLOCKS)))
        elif kind == "begin" and begun < jobs:
            steps.append((pause, Begin(begun, draw(queries), draw(st.sampled_from(GRACES_MS)))))
            begun += 1
        elif kind == "change" and begun:
            steps.append((pause, Change(draw(st.integers(0, begun - 1)), draw(queries))))
        elif kind == "end" and begun:
            steps.append((pause, End(draw(st.integers(0, begun - 1)))))
        else:
            steps.append((pause, None))
    return [*steps, *[(1.1, None)] * 4]


def plan_of(text: str) -> query.Plan:
    return query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})


def told(steps: Sequence[Step], concerns: Callable[[int], bool]) -> dict[str, list[str]]:
    """Every window of the jobs that it concerns, as one agent computes them without all others."""
    fleet = Fleet(1)
    for pause, step in steps:
        fleet.wait(pause)
        match step:
            case Block():
                fleet.insert(0, step.parsed(fleet.wall_ms))
            case None:
                fleet.catch_up()
            case Begin(job, text, grace_ms) if concerns(job):
                fleet.submit(text, f"job-{job}", bounded=False, grace_ms=grace_ms)
            case Change(job, text) if concerns(job):
                update = Update(app_id(f"job-{job}", b""), plan_of(text).to_wire(), text, False, 0)
                client_of(fleet.agents[0]).update(update, fleet.now, fleet.wall_ms)
            case End(job) if concerns(job):
                client_of(fleet.agents[0]).stop(app_id(f"job-{job}", b""), fleet.now)
        fleet.settle()
        fleet.work()
    windows: dict[str, list[str]] = {}
    for result in fleet.results:
        windows.setdefault(result.app, []).append(result.to_json())
    return windows


@settings(deadline=None)
@given(stories())
def test_jobs_that_share_operators_tell_what_each_tells_alone(steps: list[Step]) -> None:
    shared = told(steps, lambda _job: True)
    jobs = [step.job for _, step in steps if isinstance(step, Begin)]
    alone = [told(steps, lambda job, mine=mine: job == mine) for mine in jobs]  # type: ignore[misc]
    assert shared == {app: windows for one in alone for app, windows in one.items()}


FEED = ("web", None)
NAMES = {FEED: (("product", "product"),)}
SECOND = 1000


class Desk:
    """Workers of one agent on one feed, whose panes are of a second and close as soon as events are later."""

    def __init__(self) -> None:
        self.operators = OperatorPool(JobContainment(raise_again, lambda: 0.0))
        self._runs: dict[PaneConsumer, list[Run]] = {}

    def employ(self, text: str = COUNT, *, first_pane: int, code: bytes | None = None) -> PaneConsumer:
        function = JobFunction(plan_of(text), code=code)
        worker = self.operators.attach(Id(1), function, NAMES, self._sealed, grace_ms=0, bounded=False)
        worker.begin_after(FIRST_PANE)
        worker.begin_at(first_pane)
        self.operators.try_share(worker)
        return worker

    def _sealed(self, worker: PaneConsumer, run: Run) -> None:
        self._runs.setdefault(worker, []).append(run)

    def sealed(self, worker: PaneConsumer) -> list[Run]:
        """What was sealed for a worker since the last call."""
        return self._runs.pop(worker, [])

    def log(self, *products: str, at_ms: int) -> None:
        self.operators.insert(FEED, events(*products, at_ms=at_ms), 0.0, WALL_MS)
        self.seal()

    def seal(self) -> None:
        self.operators.start_sealing(0.0)
        while self.operators.turn() is not None:
            self.operators.work_next(0.0)


def counted(runs: Sequence[Run]) -> dict[int, int]:
    """The events of each pane; runs follow each other."""
    assert all(earlier.upto == later.after for earlier, later in pairwise(runs))
    every = [(pane, counts.events) for run in runs for pane, counts in run.counted.items()]
    assert len(dict(every)) == len(every)
    return dict(every)


def test_what_differs_in_what_it_shows_is_counted_once() -> None:
    desk = Desk()
    workers = [desk.employ(text, first_pane=SECOND) for text in (*EQUAL, *EQUAL)]
    desk.log("a", "b", at_ms=SECOND)
    desk.log("c", at_ms=2 * SECOND)
    assert len(list(desk.operators)) == 1
    states = [run.state for worker in workers for run in desk.sealed(worker) if run.contributors]
    assert len(states) == 2 * len(EQUAL)
    assert all(state is states[0] for state in states)


@pytest.mark.parametrize("text", [FEW, COUNT.replace("1 SEC", "2 SEC"), COUNT.replace("COUNT(*)", "COUNT(page)")])
def test_what_differs_in_what_it_counts_is_counted_apart(text: str) -> None:
    desk = Desk()
    desk.employ(first_pane=SECOND)
    desk.employ(text, first_pane=2 * SECOND)
    assert len(list(desk.operators)) == 2


def test_jobs_with_code_are_counted_apart() -> None:
    """Each one's code may bring rows of its own."""
    desk = Desk()
    workers = [desk.employ(first_pane=SECOND, code=b"the same") for _ in range(2)]
    workers[0].operator.put(pl.DataFrame({"@time": [SECOND], "product": ["own"]}))
    desk.log("a", at_ms=SECOND)
    desk.log("b", at_ms=2 * SECOND)
    assert [counted(desk.sealed(worker)) for worker in workers] == [{SECOND: 2}, {SECOND: 1}]


def test_panes_of_jobs_with_a_limit_are_sealed_before_those_of_others() -> None:
    """They end together, and jobs that are to be out sooner than a pane later do not wait for the many that are not."""
    desk, order = Desk(), list[str]()
    others = [COUNT.replace("GROUP BY", f"WHERE page = '/{number}' GROUP BY") for number in range(4)]
    limited = {
        text: f"{COUNT.replace('GROUP BY', f'WHERE page = {page!r} GROUP BY')} WITHIN {text}"
        for text, page in (("900 MILLISECONDS", "/slow"), ("300 MILLISECONDS", "/soon"))
    }
    workers = {text: desk.employ(text, first_pane=WALL_MS) for text in (*others, *limited.values())}
    desk.operators.insert(FEED, events("a", at_ms=WALL_MS), 0.0, WALL_MS)
    desk.operators.insert(FEED, events("a", at_ms=WALL_MS + SECOND), 1.0, WALL_MS + SECOND)
    while (work := desk.operators.turn()) is not None:
        order += [text for text, worker in workers.items() if worker.operator is work.job]
        desk.operators.work_next(1.0)
    assert order[:2] == [limited["300 MILLISECONDS"], limited["900 MILLISECONDS"]]
    assert sorted(order[2:]) == sorted(others)


def test_an_operator_lasts_as_long_as_any_of_its_jobs() -> None:
    desk = Desk()
    first, second = (desk.employ(first_pane=SECOND) for _ in range(2))
    desk.log("a", at_ms=SECOND)
    desk.operators.detach(first)
    desk.log("b", at_ms=2 * SECOND)
    assert counted(desk.sealed(second)) == {SECOND: 1}
    desk.operators.detach(second)
    assert list(desk.operators) == []


def test_who_begins_after_an_event_from_the_future_shares_later() -> None:
    """Until the pane of that event is sealed the older operator knows more than the younger job may."""
    desk = Desk()
    older = desk.employ(first_pane=SECOND)
    desk.log("a", at_ms=SECOND)
    desk.log("early", at_ms=4 * SECOND)
    younger = desk.employ(first_pane=4 * SECOND)
    desk.log("b", at_ms=4 * SECOND)
    assert len(list(desk.operators)) == 2
    desk.log("c", at_ms=5 * SECOND)
    assert len(list(desk.operators)) == 1
    desk.log("d", at_ms=6 * SECOND)
    assert counted(desk.sealed(older)) == {SECOND: 1, 4 * SECOND: 2, 5 * SECOND: 1}
    assert counted(desk.sealed(younger)) == {4 * SECOND: 1, 5 * SECOND: 1}


def test_a_job_that_is_not_out_holds_up_no_other_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pane_log, "UNCOMMITTED_BYTES_MAX", 1000)
    desk = Desk()
    prompt, stuck = (desk.employ(first_pane=SECOND) for _ in range(2))
    out: list[Run] = []
    for second in range(1, 40):
        desk.log(*"abcdefgh", at_ms=second * SECOND)
        out += desk.sealed(prompt)
        prompt.log.commit(Publication(prompt.frontier), prompt.frontier)
    assert prompt.frontier == 38 * SECOND
    assert stuck.frontier < 20 * SECOND
    assert sum(counted(out).values()) == 38 * 8
    late: list[Run] = []
    while stuck.frontier < prompt.frontier:
        late += desk.sealed(stuck)
        stuck.log.commit(Publication(stuck.frontier), stuck.frontier)
        desk.seal()
    assert counted([*late, *desk.sealed(stuck)]) == counted(out)
    assert len(list(desk.operators)) == 1
