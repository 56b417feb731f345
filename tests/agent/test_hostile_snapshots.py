"""Whatever a child says its subtree has seen, its parent goes on, and the result tells who is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbt
import query
from agent import Agent, Master, Result, Submit, jobs
from agent import agent as agent_module
from agent.jobs import JobPart
from agent.messages import CODEC, Announce, Enrolled, Installed, Message, Snapshot
from agent.panes import COUNT_MAX, COUNTERS, COUNTERS_SCHEMA, END, FIRST_PANE, Run, add_counters, count
from agent.parsing import Parsed
from overlay import MessageReceived, MulticastReceived, Node, Peer, WireError

APP, ROOT, CHILD = 77, 1, 2
APP_ID, ROOT_ID = APP.to_bytes(16, "big"), ROOT.to_bytes(16, "big")
SQL = (
    "SELECT product, COUNT(*) AS n, SUM(price) AS s, AVG(price) AS a, MIN(product) AS l, MAX(price) AS m, "
    "COUNT(price) AS c FROM web GROUP BY product WINDOWING 1 SECOND",
    "SELECT product, COUNT(*) AS n FROM web GROUP BY product ORDER BY n DESC LIMIT 3",
    "SELECT COUNT(*) AS n, AVG(price) AS a FROM web WINDOWING 1 SECOND",
    "SELECT product, price FROM web ORDER BY price DESC LIMIT 3",
)
ENDS = (FIRST_PANE, -1, 0, 999, 1000, 2000, END - 1, END)
INTEGERS = st.sampled_from((*ENDS, 1, 7, -(2**40), COUNT_MAX, COUNT_MAX + 1))
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pl.Int64: INTEGERS,
    pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Int128: st.integers(-(2**127), 2**127 - 1),
    pl.UInt32: st.integers(0, 2**32 - 1),
    pl.Boolean: st.booleans(),
    pl.Float64: st.floats(),
    pl.String: st.one_of(st.text(max_size=4), st.sampled_from(("1", "1e999", '"a"', "null", "[", "-0.0"))),
}


class Root:
    """A job's master, whose agent works as well, and one child that is on the roster with number 1."""

    def __init__(self, sql: str = SQL[0]) -> None:
        plan = query.analyze(query.parse(sql), {"web": query.Schema({}, open=True)})
        self.part = JobPart(APP, ROOT)
        self.master = self.part.master = Master(Submit(APP_ID, "shop", plan.stream, plan.to_wire()))
        self.part.works = True
        self.part.add_child(CHILD)
        self.part.install(self.master.enrol(ROOT, "root", works=True), ROOT)
        self.master.enrol(CHILD, "child", works=True)
        assert self.part.function is not None
        self.schema = self.part.function.state_schema
        times = pl.Series([0, 1000, 1000], dtype=pl.Int64)
        events = {"product": ["a", "b", "a"], "price": pl.Series(['"1"', "2", None], dtype=pl.String)}
        self.part.insert(Parsed((pl.DataFrame({"@time": times, **events}),), malformed=1))

    def says(self, **fields: Any) -> int:
        """The child sends a run, of nothing but what is given; returns how many were refused."""
        empty = {"state": pl.DataFrame(schema=self.schema), "counters": pl.DataFrame(schema=COUNTERS_SCHEMA)}
        filled = {"after": FIRST_PANE, "upto": END, "contributors": b"\2"} | empty | fields
        frames = {name: cbt.encode_frame(v) for name, v in filled.items() if isinstance(v, pl.DataFrame)}
        return self.part.child_snapshot(CHILD, Snapshot(APP_ID, ROOT_ID, 1, **(filled | frames)))

    def finish(self) -> list[Result]:
        """The agent's own panes are sealed; the child, if it has not come to its end, leaves."""
        self.part.start_sealing()
        self.part.seal_next()
        results = self._publish()
        self.part.remove_child(CHILD)
        return results + self._publish()

    def _publish(self) -> list[Result]:
        return [result for run in self.part.completed() for result in self.master.publish(run)]


def counters(panes: Sequence[int], **columns: Sequence[int | None]) -> pl.DataFrame:
    zeros: dict[str, Sequence[int | None]] = {name: [0] * len(panes) for name in COUNTERS}
    return pl.DataFrame({"pane": panes, **zeros, **columns}, schema=COUNTERS_SCHEMA)


def a_frame(draw: st.DrawFn, schema: pl.Schema, never_null: Sequence[str]) -> pl.DataFrame:
    height = draw(st.integers(0, 4))
    columns = {}
    for name, dtype in schema.items():
        values = VALUES[dtype.base_type()]
        choice = values if name in never_null else st.none() | values
        columns[name] = draw(st.lists(choice, min_size=height, max_size=height))
    return pl.DataFrame(columns, schema=schema)


@pytest.mark.fuzz
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
            counters=a_frame(data.draw, COUNTERS_SCHEMA, ("pane",)),
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
    "counters of a pane outside": {"upto": 1000, "counters": counters([2000], events=[1])},
    "counters of no pane of the job": {"counters": counters([7], events=[1])},
    "negative counts": {"counters": counters([0], events=[-1])},
    "absurd counts": {"counters": counters([0], events=[2**62])},
    "NULL in counts": {"counters": counters([0], late=[None])},
    "a pane twice": {"counters": counters([0, 0])},
    "contributors that nobody knows": {"contributors": b"\6"},
}


@pytest.mark.parametrize("fields", UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_run_counts_for_nothing_and_nobody_waits_for_it(fields: dict[str, Any]) -> None:
    root = Root()
    assert root.says(**fields) == 1
    first, second = root.finish()
    assert [(r.contributors, r.expected, r.missing) for r in (first, second)] == [(1, 2, ["child"])] * 2
    assert (first.events, second.events, root.master.totals["malformed"]) == (1, 2, 1)


def test_what_nobody_contributed_is_not_counted() -> None:
    root = Root()
    root.says(contributors=b"", counters=counters([0, 3000], events=[9, 9]))
    assert [(r.events, r.missing) for r in root.finish()] == [(1, ["child"]), (2, ["child"])]


def test_a_repeated_or_backward_run_is_refused() -> None:
    root = Root()
    assert [root.says(upto=1000), root.says(upto=1000), root.says(after=2000, upto=1500)] == [0, 1, 1]
    assert [r.missing for r in root.finish()] == [[], []]


def test_another_masters_numbers_mean_other_agents() -> None:
    root = Root()
    stranger = msgspec.structs.replace(
        root.part._message(Run(FIRST_PANE, END, 0b10, pl.DataFrame(schema=root.schema), count(pane=[0]))),
        master=APP_ID,
    )
    assert root.part.child_snapshot(CHILD, stranger) == 1
    assert root.part.child_installed(Installed(APP_ID, APP_ID, 1, b"\2")) == 1
    assert root.part.installed == 0b01
    assert {tuple(r.missing) for r in root.finish()} == {("child",)}


def test_a_window_of_everything_comes_out_once_however_runs_are_cut() -> None:
    root = Root(SQL[1])
    root.says(upto=100)
    root.says(after=100, counters=counters([END], malformed=[2]))
    (result,) = root.finish()
    assert (result.contributors, result.events) == (2, 3)


def test_counts_stay_within_what_can_be_added() -> None:
    summed = add_counters([counters([0], events=[COUNT_MAX])] * 4097)
    assert summed["events"].to_list() == [COUNT_MAX]


def test_a_run_too_large_for_a_message_goes_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SNAPSHOT_BYTES_MAX", 10)
    root = Root()
    message = root.part.keep(Run(FIRST_PANE, END, 0b11, pl.DataFrame(schema=root.schema), counters([0], events=[5])))
    assert (message.contributors, message.after, message.upto) == (b"", FIRST_PANE, END)


@pytest.mark.parametrize("field", ["after", "upto"])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_times_beyond_int64_are_no_message(field: str, value: int) -> None:
    fields = {"after": 0, "upto": 1, field: value}
    message = Snapshot(APP_ID, ROOT_ID, 1, contributors=b"", state=b"", counters=b"", **fields)
    with pytest.raises((WireError, OverflowError)):
        CODEC.decode(CODEC.encode(message))


def lone_agent() -> Agent:
    node = Node(Peer(ROOT, "root"), random=None)  # type: ignore[arg-type]
    return Agent("root", node, ["web"])


def test_the_jobs_an_agent_hears_of_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "JOBS_MAX", 3)
    agent = lone_agent()
    for number in range(5):
        announced = CODEC.encode(Announce(number.to_bytes(16, "big")))
        agent.process(MulticastReceived(0, announced), 0.0)  # type: ignore[arg-type]
    assert (len(agent._jobs), agent.refused) == (3, 2)


def test_a_master_takes_its_function_from_itself_only() -> None:
    """Else a stranger could start its combiner somewhere else than where the master is."""
    agent, root = lone_agent(), Root()
    agent._jobs[APP] = root.part
    root.part.function = None
    forged: Message = Enrolled(APP_ID, 0, 1, 5000, root.master.job.plan)
    agent.process(MessageReceived(Peer(CHILD, "child"), CODEC.encode(forged)), 0.0)
    assert (agent.refused, root.part.function) == (1, None)
