"""Key groups and their moves: no row is lost or twice, and each window's groups are shown once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import query
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.model.fields import GROUPS
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.model.placement import KeyMoves, Move

PANE_MS, WINDOW_MS = 1000, 4000
TEXT = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 4 SECONDS EVERY 1 SECOND"
FUNCTION = JobFunction(query.analyze(query.parse(TEXT), {"web": query.Schema({}, open=True)}))


def state_of(panes: range, products: int = 300) -> pl.DataFrame:
    """Each product once in each pane."""
    assert FUNCTION.layout is not None
    rows = [(pane * PANE_MS, f"p{number}") for pane in panes for number in range(products)]
    events = pl.DataFrame(rows, schema={"pane": pl.Int64, "k0": pl.String}, orient="row")
    return FUNCTION.layout.lift(events)


STATE = state_of(range(12))
modes = st.sampled_from(("instant", "smooth", "disruptive"))


@st.composite
def placements(draw: st.DrawFn) -> TreePlacement:
    """One move for some groups, as a group moves again only when no window needs its old owner any more."""
    trees = draw(st.integers(2, 9))
    groups = draw(st.sets(st.integers(0, GROUPS - 1), max_size=20))
    moved = KeyMoves()
    for number, group in enumerate(sorted(groups), start=1):
        pane, mode = draw(st.integers(0, 11)) * PANE_MS, draw(modes)
        until = pane + WINDOW_MS if mode == "smooth" else pane
        moved = moved.with_move(Move(number, pane, group, draw(st.integers(0, trees - 1)), mode, until), FIRST_PANE)
    return TreePlacement(trees, moved)


def counted(state: pl.DataFrame) -> Counter[tuple[int, int]]:
    return Counter(zip(state["pane"].to_list(), state["hash"].to_list(), strict=True))


@given(placements())
def test_each_row_is_on_one_tree_or_on_two_while_its_group_moves_smoothly(placement: TreePlacement) -> None:
    pieces = placement.cut(FUNCTION, STATE)
    assert len(pieces) == placement.trees
    assert sum((counted(piece) for piece in placement.once.cut(FUNCTION, STATE)), Counter()) == counted(STATE)
    both = sum((counted(piece) for piece in pieces), Counter()) - counted(STATE)
    smooth = {move.group: move for move in placement.moved.moves if move.mode == "smooth"}
    for pane, key_hash in both:
        assert smooth[key_hash >> 58].pane <= pane < smooth[key_hash >> 58].until
    for tree, piece in enumerate(pieces):
        assert placement.is_on_tree(FUNCTION, piece, tree)
        order = list(zip(piece["pane"].to_list(), piece["hash"].to_list(), strict=True))
        assert all(one < other for one, other in pairwise(order))


@given(placements(), st.integers(0, 8))
def test_of_each_window_every_pane_counts_once(placement: TreePlacement, first: int) -> None:
    """Owners put their panes into windows, and show what is theirs; of a group that moves disruptively the new one has
    been given what the old one had. All that is shown of a window is all there is."""
    start, at = first * PANE_MS, first * PANE_MS + WINDOW_MS - PANE_MS
    shown: Counter[int] = Counter()
    given_away: Counter[int] = Counter()
    for tree, piece in enumerate(placement.cut(FUNCTION, STATE)):
        window = piece.filter(pl.col("pane").is_between(start, at)).with_columns(pane=pl.lit(start, dtype=pl.Int64))
        seen = placement.of_window(window, tree, at)
        shown.update(seen["hash"].to_list())
        given_away.update((Counter(window["hash"].to_list()) - Counter(seen["hash"].to_list())).elements())
    moves = {move.group: move for move in placement.moved.moves}
    for key_hash in STATE["hash"].unique().to_list():
        move = moves.get(key_hash >> 58)
        restored = given_away[key_hash] if move is not None and move.mode == "disruptive" else 0
        assert shown[key_hash] + restored == WINDOW_MS // PANE_MS


@given(placements())
def test_in_a_new_epoch_groups_are_where_they_have_moved_to(placement: TreePlacement) -> None:
    anew = TreePlacement(placement.trees, placement.moved.begun_anew())
    later = state_of(range(40, 42))
    assert [counted(one) for one in anew.cut(FUNCTION, later)] == [
        counted(one) for one in placement.cut(FUNCTION, later)
    ]
    assert anew.once is anew
    assert not anew.moved.moves or anew.moved.number > placement.moved.number


def test_moves_that_nobody_needs_are_forgotten() -> None:
    moved = KeyMoves()
    for number in range(1, 100):
        pane = number * PANE_MS
        moved = moved.with_move(Move(number, pane, number % 2, number % 3, "instant", pane), pane - 3 * PANE_MS)
    assert moved.number == 99
    assert len(moved.moves) <= 6
    assert not moved.is_stale(98, 98 * PANE_MS)
    assert moved.is_stale(98, 99 * PANE_MS)
