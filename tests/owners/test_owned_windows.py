"""Whoever owns the keys, and wherever they move meanwhile: results are byte for byte those of one tree on one agent."""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_fleet import KEY, WALL_MS, Fleet, events
from recording_client import client_of

import query
from agent import Update, WindowResult
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.master.job_master import JobMaster
from agent.runtime.master.owners.key_placement import OF_MASTER, ONE_TREE, PLAIN
from agent.runtime.model.fields import GROUPS
from query.explain import has_owners

AGENTS = 4
SECONDS = 14
PRODUCTS = [f"product-{number}" for number in range(60)]
WINDOWS = "WINDOWING 4 SECONDS EVERY 2 SECONDS, 6 SECONDS GRACE 0 SECONDS"
QUERIES = (
    f"SELECT product, COUNT(*) AS n, SUM(price) AS s, AVG(price) AS mean FROM web GROUP BY product {WINDOWS}",
    f"SELECT product, COUNT(*) AS n FROM web GROUP BY product HAVING COUNT(*) > 9 {WINDOWS}",
    f"SELECT product, SUM(price) AS s FROM web GROUP BY product ORDER BY s DESC, product LIMIT 3 {WINDOWS}",
    f"SELECT product, MAX(price) AS most, MIN(price) FROM web GROUP BY product ORDER BY most LIMIT 5 {WINDOWS}",
    f"SELECT product, APPROX_COUNT_DISTINCT(price) AS d FROM web GROUP BY product LIMIT 4 {WINDOWS}",
)
MODES = ("instant", "smooth", "disruptive")


class Move:
    """A move that is asked for after some second."""

    def __init__(self, second: int, groups: frozenset[int], tree: int, mode: str) -> None:
        self.second, self.groups, self.tree, self.mode = second, groups, tree, mode

    def __repr__(self) -> str:
        return f"Move({self.second}, {sorted(self.groups)}, {self.tree}, {self.mode!r})"


def master_of(fleet: Fleet) -> JobMaster:
    return next(master for agent in fleet.agents if (master := agent.masters.get(KEY)) is not None)


def lived(
    text: str, moves: list[Move], *, agents: int = AGENTS, update: tuple[int, str] | None = None, **options: Any
) -> Fleet:
    """A live job over the same events, however many agents and trees there are, while groups move. `update`: the
    second in which it is to compute another query, and that."""
    fleet = Fleet(agents)
    fleet.wait(0.5)
    fleet.submit(text, bounded=False, grace_ms=0, **options)
    fleet.catch_up()
    for second in range(1, SECONDS):
        for number in range(AGENTS):
            products = PRODUCTS[number % 3 :: 1 + (number + second) % 5]
            prices = [
                float((second + place) % 7) + (0.25 if place % 11 == 3 else 0.0) for place in range(len(products))
            ]
            fleet.insert(number % agents, events(*products, None, at_ms=WALL_MS + second * 1000, price=[*prices, 1.5]))
        fleet.catch_up()
        fleet.wait(0.3)
        if update is not None and update[0] == second:
            ask_to_update(fleet, update[1])
        for move in moves:
            if move.second == second:
                assert master_of(fleet).placement.move(sorted(move.groups), move.tree, move.mode, fleet.now) is None  # type: ignore[arg-type]
                fleet.settle()
    fleet.wait(3.0)
    fleet.catch_up()
    fleet.wait_long(3.0)
    return fleet


def ask_to_update(fleet: Fleet, text: str) -> None:
    plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})
    client_of(fleet.agents[0]).update(Update(KEY, plan.to_wire(), text, False, 0), fleet.now, fleet.wall_ms)
    fleet.settle()


def told(found: list[WindowResult]) -> list[tuple[Any, ...]]:
    return [
        (
            one.window_start,
            one.window_end,
            list(one.rows),
            one.events,
            one.other,
            one.limited,
            one.error,
            bool(one.partial),
        )
        for one in found
        if not one.missing
    ]


@cache
def alone_with(text: str, **options: Any) -> list[tuple[Any, ...]]:
    """The results of one tree on one agent."""
    return told(lived(text, [], agents=1, **options).results)


@st.composite
def moves_of(draw: st.DrawFn, trees: int) -> list[Move]:
    """Some groups in turn, each once."""
    groups = draw(st.permutations(range(GROUPS)))
    found = []
    for second in sorted(draw(st.lists(st.integers(2, 9), max_size=4, unique=True))):
        taken, groups = groups[:15], groups[15:]
        mode = draw(st.sampled_from(MODES))
        first = 1 if mode == "disruptive" else 0
        # A group that was on tree 0, which is the master's, does not move disruptively.
        chosen = [group for group in taken if mode != "disruptive" or group * trees >= GROUPS + trees]
        found.append(Move(second, frozenset(chosen), draw(st.integers(first, trees - 1)), mode))
    return found


@settings(max_examples=max(3, settings.default.max_examples // 10))
@given(st.data())
def test_results_are_those_of_one_tree_on_one_agent(data: st.DataObject) -> None:
    text, trees = data.draw(st.sampled_from(QUERIES)), data.draw(st.integers(2, 5))
    moves = data.draw(moves_of(trees))
    options = {"max_groups": data.draw(st.sampled_from((40, 200)))}
    alone = alone_with(text, **options)
    fleet = lived(f"{text} TREES {trees}", moves, **options)
    assert told(fleet.results) == alone
    assert len(alone) > 6
    made = sum(agent.owners.statistics()["windows"] for agent in fleet.agents)
    assert made > 0
    is_limited = any(one.other is not None for one in fleet.results)
    assert master_of(fleet).state.epoch.counter == 1 or (is_limited and any(move.mode == "smooth" for move in moves))


@settings(max_examples=30)
@given(st.data())
def test_groups_that_are_not_shown_need_not_be_sent(data: st.DataObject) -> None:
    """Each owner leaves out what HAVING and LIMIT leave out of its own groups: the result is that of all."""
    text = data.draw(st.sampled_from(QUERIES))
    function = JobFunction(query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}, max_groups=200))
    assert function.layout is not None
    rows = data.draw(st.lists(st.tuples(st.sampled_from(PRODUCTS), st.integers(-9, 9)), min_size=1, max_size=200))
    batch = events(*(product for product, _ in rows), price=[float(price) for _, price in rows])
    store = function.new_store()
    for frame in batch.frames:
        store.insert(function.select(function.in_range(frame)).with_columns(pane=pl.lit(0, dtype=pl.Int64)))
    whole = function.gather(list(store.flush()))
    trees = data.draw(st.integers(1, 4))
    pieces = TreePlacement(trees).cut(function, whole)
    pruned = [function.pruned(piece, 6000, trees) if piece.height else piece for piece in pieces]
    merged = function.combine([piece for piece in pruned if piece.height])
    expected, found = (function.finish_windows(state, [0], 6000)[0] for state in (whole, merged))
    assert (list(found.rows), found.limited, found.error) == (list(expected.rows), expected.limited, expected.error)
    limit = function.plan.limit
    if limit is not None and function.plan.having is None and not whole.height * trees > 200:
        assert all(piece["hash"].n_unique() <= limit for piece in pruned) or "DISTINCT" in text


@pytest.mark.parametrize(
    "windows",
    ["1 SECOND", "4 SECONDS EVERY 2 SECONDS", "2 SECONDS, 6 SECONDS", "SESSION 2 SECONDS", "6 SECONDS EMIT CHANGES"],
)
def test_explain_says_so_where_owners_make_windows_and_nowhere_else(windows: str) -> None:
    text = f"SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING {windows} TREES 3"
    plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})
    assert has_owners(plan) == JobFunction(plan).is_consolidated


def refusal(fleet: Fleet, group: int, tree: int, mode: str) -> str | None:
    return master_of(fleet).placement.move([group], tree, mode, fleet.now)  # type: ignore[arg-type]


def test_moves_that_are_not_possible_are_refused_with_a_reason() -> None:
    assert refusal(lived(QUERIES[0], []), 5, 0, "instant") == ONE_TREE
    fleet = lived(f"{QUERIES[0]} TREES 3", [Move(9, frozenset({40}), 2, "smooth")])
    assert refusal(fleet, 40, 1, "instant") is not None
    assert "group 40 has moved already" in str(refusal(fleet, 40, 1, "instant"))
    assert refusal(fleet, 1, 2, "disruptive") == OF_MASTER
    assert refusal(fleet, 60, 0, "disruptive") == OF_MASTER
    plain = lived("SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND TREES 3", [])
    assert refusal(plain, 60, 1, "smooth") == PLAIN
    assert refusal(plain, 60, 1, "instant") is None


def test_groups_of_plain_windows_move_too() -> None:
    text = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 2 SECONDS GRACE 0 SECONDS"
    moves = [Move(4, frozenset(range(20, 50)), 0, "instant"), Move(7, frozenset(range(10)), 2, "instant")]
    assert told(lived(f"{text} TREES 3", moves).results) == alone_with(text)
