"""Panes that are cut into shorter ones: the same rows, to the byte, whatever the cuts, the trees and the agents."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import query as ql
from agent.parsing import Parsed
from agent.runtime.embedded import EmbeddedFleet
from agent.runtime.messages.jobs import Submit
from overlay import app_id
from query.plan.windows import WindowsError

AGGREGATES = "COUNT(*) AS n, SUM(x) AS all_of_it, AVG(y) AS middle, MIN(x) AS least, VARIANCE(y) AS spread"
WINDOWS = ("4 SECONDS", "4 SECONDS EVERY 2 SECONDS", "2 SECONDS, 8 SECONDS EVERY 4 SECONDS")
Event = tuple[int, str, int, float]
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 19_999), st.sampled_from("abcdefgh"), st.integers(-9, 9), st.floats(-1e9, 1e9, allow_nan=False)
    ),
    max_size=30,
)
REST = "HAVING n > 0 ORDER BY all_of_it DESC, k LIMIT 5"


def planned(windows: str, rest: str = "", *, max_groups: int = 4) -> ql.Plan:
    text = f"SELECT k, {AGGREGATES} FROM web GROUP BY k {rest} WINDOWING {windows}"
    schema = ql.Schema({"k": "string", "x": "integer", "y": "number"}, open=True)
    return ql.analyze(ql.parse(text), {"web": schema}, max_groups=max_groups)


def lines(plan: ql.Plan, events: Sequence[Event], agents: int) -> list[str]:
    """What a fleet publishes of events that its agents have by turns."""
    fleet = EmbeddedFleet(agents, ["web"], random.Random(1))
    fleet.submit(Submit(app_id("cut", b""), "cut", "web", plan.to_wire(), bounded=True))
    for number in range(agents):
        own = sorted(events[number::agents])
        columns = {"@time": pl.Int64, "k": pl.String, "x": pl.Int64, "y": pl.Float64}
        fleet.insert(number, "web", Parsed([pl.DataFrame(own, columns, orient="row")], 0))
    return [result.to_json() for result in fleet.end_of_input()]


@settings(max_examples=max(4, settings.default.max_examples // 3))
@example([(0, "a", 1, 0.1), (3_999, "a", 2, 0.2), (4_000, "b", 3, 0.3)], WINDOWS[0], "", 4, 2, 2)
@given(
    EVENTS,
    st.sampled_from(WINDOWS),
    st.sampled_from(("", REST)),
    st.sampled_from((2, 4, 5, 8)),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_rows_are_the_same_for_every_cut_and_number_of_trees(
    events: list[Event], windows: str, rest: str, cuts: int, trees: int, agents: int
) -> None:
    plan = planned(windows, rest)
    assert plan.can_be_cut
    assert plan.windowing is not None
    cut = ql.Plan.from_wire(replace(plan, windowing=plan.windowing.cut(cuts), trees=trees).to_wire())
    assert cut.windowing is not None
    assert (cut.windowing.cuts, cut.pane_ms) == (cuts, plan.windowing.common_ms // cuts)
    assert lines(cut, events, agents) == lines(plan, events, agents)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT APPROX_MEDIAN(x) AS m FROM web WINDOWING 4 SECONDS",
        "SELECT COUNT(DISTINCT k) AS n FROM web WINDOWING 4 SECONDS",
        "SELECT COUNT(*) AS n FROM web WINDOWING 4 SECONDS EMIT CHANGES",
        "SELECT COUNT(*) AS n FROM web WINDOWING SESSION 4 SECONDS",
        "SELECT k FROM web LIMIT 5 WINDOWING 4 SECONDS",
    ],
)
def test_what_shorter_panes_would_change_is_not_cut(text: str) -> None:
    schema = ql.Schema({"k": "string", "x": "integer"}, open=True)
    assert not ql.analyze(ql.parse(text), {"web": schema}).can_be_cut


def test_panes_are_cut_evenly_or_not_at_all() -> None:
    windowing = planned("1 SECOND").windowing
    assert windowing is not None
    assert windowing.cut(4).cut(1) == windowing
    for cuts in (0, 3, 2_000):
        with pytest.raises(WindowsError):
            windowing.cut(cuts)
