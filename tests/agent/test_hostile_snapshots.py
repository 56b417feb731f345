"""Whatever a child says its subtree has seen, its parent goes on, and the result tells who is in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cbt
import query
from agent import Agent, JobState, StreamOptions, Submit, WindowResult
from agent.parsing import Parsed
from agent.runtime.fleet import job_directory as announcements
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.result import OtherGroups
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import FunctionCache
from agent.runtime.ingest.feed import Feed
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pipeline import columns_of
from agent.runtime.job.local_job import LocalJob
from agent.runtime.messages.jobs import CODEC, Announce, Enrolled, Snapshot
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import PANES_COUNTED_MAX
from agent.runtime.model.panes import COUNT_MAX, END, FIRST_PANE, Counts, Run, add_counted
from agent.runtime.reduce import snapshot as held_snapshots
from agent.runtime.reduce.parts import PRODUCTION, RunLimits
from agent.runtime.reduce.retransmit import AckLatency
from agent.runtime.reduce.snapshot import run_of, snapshot_of
from cbt.layout.group_limit import GroupLimit
from overlay import Id, MessageReceived, MulticastReceived, Node, Peer, WireError, app_id

APP, ROOT, CHILD = app_id("shop", b""), Id(1), Id(2)
EPOCH = JobEpoch(5, 1, ROOT)
SQL = (
    "SELECT product, COUNT(*) AS n, SUM(price) AS s, AVG(price) AS a, MIN(product) AS l, MAX(price) AS m, "
    "COUNT(price) AS c FROM web GROUP BY product WINDOWING 1 SECOND",
    "SELECT product, COUNT(*) AS n FROM web GROUP BY product ORDER BY n DESC LIMIT 3",
    "SELECT COUNT(*) AS n, AVG(price) AS a FROM web WINDOWING 1 SECOND",
    "SELECT product, price FROM web ORDER BY price DESC LIMIT 3",
    "SELECT product, COUNT(*) AS n, SUM(price) AS s FROM web GROUP BY product WINDOWING SESSION 10 SECONDS",
    "SELECT product, COUNT(DISTINCT price) AS d FROM web GROUP BY product WINDOWING 1 SECOND",
)
ENDS = (FIRST_PANE, -1, 0, 999, 1000, 2000, END - 1, END)
INTEGERS = st.sampled_from((*ENDS, 1, 7, -(2**40), COUNT_MAX, COUNT_MAX + 1))
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pl.Int8: st.integers(-128, 127),
    pl.Int64: INTEGERS,
    pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Int128: st.integers(-(2**127), 2**127 - 1),
    pl.UInt32: st.integers(0, 2**32 - 1),
    pl.Boolean: st.booleans(),
    pl.Float64: st.floats(),
    pl.String: st.one_of(st.text(max_size=4), st.sampled_from(("1", "1e999", '"a"', "null", "[", "-0.0"))),
}


def raise_again(_job: Id, error: BaseException) -> None:
    raise error


def function_of(part: LocalJob) -> JobFunction:
    assert part.versions is not None
    return part.versions.newest.function


class Root:
    """A job's master, whose agent works as well, and one child that is on the roster with number 1."""

    def __init__(
        self, sql: str = SQL[0], max_groups: int = query.GROUPS_DEFAULT, limits: RunLimits = PRODUCTION
    ) -> None:
        plan = query.analyze(query.parse(sql), {"web": query.Schema({}, open=True)}, max_groups=max_groups)
        self.operators = OperatorPool(JobContainment(raise_again, lambda: 0.0))
        self.part = LocalJob(APP, ROOT, self.operators, FunctionCache(), AckLatency(), lambda _job: None, limits)
        self.master = JobState(Submit(APP, "shop", plan.stream, plan.to_wire()), EPOCH, ROOT)
        self.part.begin_epoch(EPOCH, Peer(ROOT, "root"), self.master.trees)
        self.part.root, self.part.works = self, True
        self.part.nodes.add_child(CHILD)
        own = self.enrol(ROOT, "root")
        self.part.install(own)
        function = function_of(self.part)
        self.feed = Feed("web", APP, "beginning", True, tuple(columns_of(function)))
        self.master.acknowledge(ROOT, self.part.start_working(own, [self.feed], 0))
        self.enrol(CHILD, "child")
        self.schema = function_of(self.part).state_schema
        times = pl.Series([0, 1000, 1000], dtype=pl.Int64)
        events = {"product": ["a", "b", "a"], "price": pl.Series(['"1"', "2", None], dtype=pl.String)}
        self.operators.insert(self.feed.key, Parsed((pl.DataFrame({"@time": times, **events}),), malformed=1), 0.0, 0)

    reads_app = has_more = False

    def known(self) -> int:
        return self.master.roster.known()

    def on_complete(self, now: float) -> None:
        raise NotImplementedError

    def enrol(self, node_id: Id, name: str) -> Enrolled:
        enrolled = self.master.enrol(node_id, name, works=True)
        assert enrolled is not None
        return enrolled

    def says(self, **fields: Any) -> int:
        """The child sends a run, of nothing but what is given; returns how many were refused."""
        empty = {"state": pl.DataFrame(schema=self.schema), "counted": []}
        filled = {"after": FIRST_PANE, "upto": END, "contributors": b"\2"} | empty | fields
        frames = {name: cbt.encode_frame(v) for name, v in filled.items() if isinstance(v, pl.DataFrame)}
        before = self.part.refused
        self.part.take_snapshot(CHILD, Snapshot(APP, filled.pop("epoch", EPOCH), 1, **(filled | frames)))
        return self.part.refused - before

    def finish(self) -> list[WindowResult]:
        """The agent's own panes are sealed; the child, if it has not come to its end, leaves."""
        self.part.opened(self.feed.key, 0)
        self.operators.end_of_feed(self.feed.key, 0.0, 0)
        self.operators.work_next(0.0)
        results = self._publish()
        self.child_dies()
        return results + self._publish()

    def child_dies(self) -> None:
        self.part.take_ahead(at_once=True)
        self.part.nodes.remove_child(CHILD)

    def _publish(self) -> list[WindowResult]:
        complete = self.part.nodes.complete_runs()
        results = [result for run in complete for result in self.master.publish(run).values()]
        return results + self._publish() if self.part.take_ahead() else results


def counted(*panes: int, **counts: int) -> list[tuple[int, ...]]:
    """As it travels: the same counts of each of these panes."""
    return [(pane, *Counts(**counts)) for pane in panes]


def any_counted(draw: st.DrawFn) -> list[tuple[int, ...]]:
    return draw(st.lists(st.tuples(*[VALUES[pl.Int64]] * 7), max_size=4))


def a_frame(draw: st.DrawFn, schema: pl.Schema, never_null: Sequence[str]) -> pl.DataFrame:
    height = draw(st.integers(0, 4))
    columns = {}
    for name, dtype in schema.items():
        values = VALUES[dtype.base_type()]
        choice = values if name in never_null else st.none() | values
        columns[name] = draw(st.lists(choice, min_size=height, max_size=height))
    return pl.DataFrame(columns, schema=schema)


@pytest.mark.fuzz
@settings(max_examples=settings.default.max_examples // 3)
@given(st.data())
def test_no_run_harms_a_root(data: st.DataObject) -> None:
    """Any span, any contributors, any values in the right columns."""
    root = Root(data.draw(st.sampled_from(SQL)))
    for _ in range(data.draw(st.integers(1, 3))):
        root.says(
            after=data.draw(st.sampled_from(ENDS)),
            upto=data.draw(st.sampled_from(ENDS)),
            contributors=data.draw(st.sampled_from((b"", b"\2", b"\2", b"\1", b"\3", b"\xff" * 8))),
            state=a_frame(data.draw, root.schema, ("pane", "hash")),
            counted=any_counted(data.draw),
            detached=data.draw(st.booleans()),
            epoch=data.draw(st.sampled_from((EPOCH, EPOCH, EPOCH, EPOCH.next(CHILD), JobEpoch(4, 9, ROOT)))),
        )
    results = root.finish()
    assert root.master.frontier == END
    windows = [result.window_start for result in results]
    assert len(set(windows)) == len(windows)
    for result in results:
        assert result.to_json()
        assert result.expected == 2
        assert result.contributors + len(result.missing) == result.expected
        assert min(result.events, result.malformed, result.late, result.coerced, result.dropped) >= 0


UNSOUND: dict[str, dict[str, Any]] = {
    "a frame that is none": {"state": b"not a frame"},
    "counters of a pane outside": {"upto": 1000, "counted": counted(2000, events=1)},
    "counters of no pane of the job": {"counted": counted(7, events=1)},
    "negative counts": {"counted": counted(0, events=-1)},
    "absurd counts": {"counted": counted(0, events=2**62)},
    "a pane twice": {"counted": counted(0, 0)},
    "contributors that nobody knows": {"contributors": b"\6"},
}


@pytest.mark.parametrize("fields", UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_run_counts_for_nothing_and_nobody_waits_for_it(fields: dict[str, Any]) -> None:
    root = Root()
    assert root.says(**fields) == 1
    first, second = root.finish()
    assert [(r.contributors, r.expected, r.missing) for r in (first, second)] == [(1, 2, ["child"])] * 2
    assert (first.events, second.events, root.master.totals.malformed) == (1, 2, 1)


@pytest.mark.parametrize(("groups", "refused"), [(3, 0), (4, 1)])
def test_a_run_may_have_the_groups_that_are_kept_and_other(groups: int, refused: int) -> None:
    root = Root(SQL[1], max_groups=2)
    layout = cbt.Layout([cbt.Key("k0", "any")], [cbt.Aggregate("a0", "count", None, "any")])
    state = layout.lift(pl.DataFrame({"pane": [0] * groups, "k0": [f"product-{n}" for n in range(groups)]}))
    assert root.says(state=state, counted=counted(0, events=groups)) == refused
    (result,) = root.finish()
    assert (len(result.rows), result.missing) == (2, ["child"] * refused)


def test_an_other_that_was_made_up_is_one() -> None:
    root = Root(SQL[1])
    layout = cbt.Layout([cbt.Key("k0", "any")], [cbt.Aggregate("a0", "count", None, "any")])
    limit = GroupLimit(1, "other")
    (_, other) = limit.apply(layout, layout.lift(pl.DataFrame({"pane": [0] * 3, "k0": ["a", "b", "c"]}))).iter_slices(1)
    assert root.says(state=pl.concat([other, other]), counted=counted(0, events=4)) == 0
    (result,) = root.finish()
    assert (len(result.rows), result.other) == (2, OtherGroups(2, 1, None, {"n": 4}))


def test_what_nobody_contributed_is_not_counted() -> None:
    root = Root()
    root.says(contributors=b"", counted=counted(0, 3000, events=9))
    assert [(r.events, r.missing) for r in root.finish()] == [(1, ["child"]), (2, ["child"])]


def test_what_a_child_sends_ahead_counts_once_its_turn_comes_and_after_its_death() -> None:
    for dies in (False, True):
        root = Root()
        for after, upto in ((FIRST_PANE, 0), (0, 1000), (0, 1000), (1000, END)):
            panes = [pane for pane in (0, 1000) if after < pane <= upto]
            assert root.says(after=after, upto=upto, counted=counted(*panes, events=5)) == 0, "held, whatever it is"
        if dies:
            root.child_dies()
        assert [(r.events, r.missing) for r in root.finish()] == [(6, []), (7, [])]


def test_a_repeated_or_backward_run_is_refused() -> None:
    root = Root()
    assert [root.says(upto=1000), root.says(upto=1000), root.says(after=2000, upto=1500)] == [0, 1, 1]
    assert [r.missing for r in root.finish()] == [[], []]


@pytest.mark.parametrize("epoch", [JobEpoch(5, 0, ROOT), JobEpoch(5, 1, Id(0)), JobEpoch(4, 7, ROOT)])
def test_another_masters_numbers_mean_other_agents(epoch: JobEpoch) -> None:
    root = Root()
    assert root.says(epoch=epoch, counted=counted(0, events=9)) == 1
    assert {tuple(r.missing) for r in root.finish()} == {("child",)}


def test_snapshots_of_an_epoch_to_come_wait_for_it_in_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_snapshots, "EARLY_MAX", 3)
    root = Root()
    assert [root.says(epoch=EPOCH.next(CHILD)) for _ in range(5)] == [0, 0, 0, 1, 1]
    assert {tuple(r.missing) for r in root.finish()} == {("child",)}


def test_what_comes_again_counts_once_and_only_if_it_is_whole() -> None:
    root = Root()
    seven = counted(0, events=7)
    assert [root.says(upto=500, counted=seven), root.says(upto=500, counted=seven, detached=True)] == [0, 0]
    assert root.says(after=500, contributors=b"\3", counted=counted(1000, events=7), detached=True) == 0
    first, second = root.finish()
    assert (first.events, first.missing) == (8, [])
    assert (second.events, second.missing) == (7, []), "root and child together, or root alone, but not both"


def test_what_comes_again_is_kept_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.runtime.reduce.combiner.DETACHED_MAX", 2)
    root = Root()
    for _ in range(5):
        root.says(upto=500, counted=counted(0, events=7), detached=True)
    assert root.part.nodes.waiting_runs <= 3
    assert [r.events for r in root.finish()] == [8, 2]


def test_a_window_of_everything_comes_out_once_however_runs_are_cut() -> None:
    root = Root(SQL[1])
    root.says(upto=100)
    root.says(after=100, counted=counted(END, malformed=2))
    (result,) = root.finish()
    assert (result.contributors, result.events) == (2, 3)


def test_counts_stay_within_what_can_be_added() -> None:
    assert add_counted([{0: Counts(COUNT_MAX)}] * 4097) == {0: Counts(COUNT_MAX)}


def test_a_pane_too_large_to_be_passed_on_goes_without_content_and_says_so() -> None:
    root = Root(limits=RunLimits(run_bytes=10))
    run = Run(FIRST_PANE, END, 0b11, pl.DataFrame(schema=root.schema), {0: Counts(5)})
    (message,) = root.part._messages(run)
    assert (message.contributors, message.after, message.upto) == (b"", FIRST_PANE, END)
    assert message.counted == [(0, *Counts())], "its windows are there all the same"
    ((lost, reason),) = message.losses
    assert (lost, reason.endswith("the limit is 10")) == (b"\3", True)
    assert root.part.oversized == 1


@pytest.mark.parametrize("number", [PANES_COUNTED_MAX, PANES_COUNTED_MAX + 1, 10 * PANES_COUNTED_MAX])
def test_a_run_of_any_number_of_panes_can_be_read_by_its_parent(number: int) -> None:
    """Else it would be sent for ever."""
    root = Root()
    panes = dict.fromkeys(range(0, number * 1000, 1000), Counts(5))
    messages = list(root.part._messages(Run(FIRST_PANE, END, 0b11, pl.DataFrame(schema=root.schema), panes)))
    assert len(messages) == -(-number // PANES_COUNTED_MAX)
    assert [CODEC.decode(CODEC.encode(one)) for one in messages] == messages
    assert {pane: Counts(*counts) for one in messages for pane, *counts in one.counted} == panes
    assert {one.contributors for one in messages} == {b"\3"}
    assert [one.after for one in messages[1:]] == [one.upto for one in messages[:-1]]


@pytest.mark.parametrize("field", ["after", "upto"])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_times_beyond_int64_are_no_message(field: str, value: int) -> None:
    fields = {"after": 0, "upto": 1, field: value}
    message = Snapshot(APP, EPOCH, 1, contributors=b"", state=b"", counted=[], **fields)
    with pytest.raises((WireError, OverflowError)):
        CODEC.decode(CODEC.encode(message))


def lone_agent() -> Agent:
    node = Node(Peer(ROOT, "root"), random=random.Random(1))
    agent = Agent("root", node, {"web": StreamOptions()})
    agent.directory.on_claimed(agent.directory.believe)  # it is in no overlay in which it could ask
    return agent


def announced(number: int) -> Announce:
    master = Peer(CHILD, "child")
    return Announce(Id(number), JobEpoch(0, 1, CHILD), master, "m", "shop", "web", "", True, 1, FIRST_PANE, 0, 0)


def test_the_jobs_an_agent_hears_of_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "JOBS_MAX", 3)
    agent = lone_agent()
    for number in range(5):
        agent.process(MulticastReceived(FLEET_GROUP, CODEC.encode(announced(number))), 0.0, 0)
    assert (len(agent.status().jobs), len(agent.directory.all()), agent.refused) == (3, 3, 2)


def test_a_function_is_taken_from_the_master_only() -> None:
    """Else a stranger could start an agent's combiner somewhere else than where the master is."""
    agent, root = lone_agent(), Root()
    agent.process(MulticastReceived(FLEET_GROUP, CODEC.encode(announced(APP))), 0.0, 0)
    forged = CODEC.encode(Enrolled(APP, JobEpoch(0, 1, CHILD), 0, root.master.versions.all(), 5000, 0, root.master.job))
    agent.process(MessageReceived(Peer(Id(3), "stranger"), forged), 0.0, 0)
    assert (agent.refused, agent.status().jobs[0].installed) == (1, False)
    agent.process(MessageReceived(Peer(CHILD, "child"), forged), 0.0, 0)
    assert (agent.refused, agent.status().jobs[0].installed) == (1, True)


@pytest.mark.parametrize("sql", SQL)
def test_states_of_nothing_are_one_and_travel_as_such(sql: str) -> None:
    root = Root(sql)
    function, versions = function_of(root.part), root.part.versions
    assert versions is not None
    assert function.combine([]).schema == function.combine([function.empty_state] * 2).schema == root.schema
    idle = Run(FIRST_PANE, END, 2, function.empty_state)
    message = snapshot_of(idle, versions, APP, EPOCH, detached=False)
    assert message.state == cbt.encode_frame(function.empty_state)
    read = run_of(message, versions, TreePlacement(1), None)
    assert read is not None
    assert (read.state.height, read.state.schema, read.contributors) == (0, root.schema, 2)
