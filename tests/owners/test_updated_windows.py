"""Updates of jobs whose trees have owners, while groups move: each window is that of a job which has always computed
its version, and none is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_owned_windows import QUERIES, alone_with, lived, master_of, moves_of, told

from agent.runtime.function.versions import Beside, InForce
from agent.runtime.messages.jobs import Decision
from agent.runtime.reduce.owner import TreeOwner
from query import parse_timestamp

PLAIN = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 2 SECONDS GRACE 0 SECONDS"
OTHER_SIZES = (
    "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 9 SECONDS EVERY 3 SECONDS GRACE 0 SECONDS"
)


@settings(max_examples=max(3, settings.default.max_examples // 10))
@given(st.data())
def test_updated_windows_are_those_of_either_query_on_one_agent(data: st.DataObject) -> None:
    first = data.draw(st.sampled_from([*QUERIES, PLAIN]))
    second = data.draw(st.sampled_from([*QUERIES, PLAIN, OTHER_SIZES]).filter(lambda text: text != first))
    trees = data.draw(st.integers(1, 4))
    moves = data.draw(moves_of(trees)) if trees > 1 else []
    at = data.draw(st.integers(3, 8))
    if PLAIN in (first, second):  # while the newest windows are of one pane, groups move in no other way than instantly
        moves = [move for move in moves if move.mode == "instant" or (move.second < at) == (second == PLAIN)]
    fleet = lived(f"{first} TREES {trees}", moves, update=(at, second))
    state = master_of(fleet).state
    starts = state.versions.newest.version.starts
    assert (state.version, state.epoch.counter) == (2, 1)
    results = fleet.results
    for version, text in ((1, first), (2, second)):
        mine = told([one for one in results if one.version == version])
        assert mine == [one for one in alone_with(text) if ((parse_timestamp(one[0]) or 0) >= starts) == (version == 2)]
    ends = [one.window_end for one in results]
    assert ends == sorted(ends, key=lambda end: end or "")


def test_windows_of_the_version_before_count_for_the_memory_of_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    decide, found = TreeOwner.decide, list[int]()

    def noted(owner: TreeOwner, message: Decision, version: InForce, beside: Sequence[Beside]) -> object:
        spans = decide(owner, message, version, beside)
        if message.version == 2 and not version.function.is_consolidated:
            found.append(owner.memory_bytes)
        return spans

    monkeypatch.setattr(TreeOwner, "decide", noted)
    lived(f"{QUERIES[0]} TREES 3", [], update=(4, PLAIN))
    assert max(found) > 0
