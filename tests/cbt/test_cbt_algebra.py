"""Merging is associative and commutative for every built-in PAO: states are the same however events were dealt."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import pytest
from built_in_paos import PAOS, Event, events
from hypothesis import given, settings
from hypothesis import strategies as st
from pao_states import KINDS, State, combine, lift, lift_each, lower, same, subtract

from cbt.aggregates.laws import check_algebra
from cbt.algebra.pao import Pao


def lift_blocks(pao: Pao, rows: list[Event]) -> State:
    """Events as an agent would lift them: one block for each physical type."""
    blocks = defaultdict(list)
    for value, time in rows:
        blocks[type(value)].append((value, time))
    return combine(pao, [
        lift(pao, pl.Series([value for value, _ in block], dtype=KINDS[kind]), time=[time for _, time in block])
        for kind, block in blocks.items()
    ])  # fmt: skip


@pytest.mark.parametrize("name", PAOS)
@settings(max_examples=settings.default.max_examples // 4)
@given(st.data(), st.integers(1, 4))
def test_dealing_and_merging_change_no_state(name: str, data: st.DataObject, parts: int) -> None:
    make, type_ = PAOS[name]
    pao, rows = make(), data.draw(events(type_))
    whole = lift_blocks(pao, rows)
    agents = [lift_blocks(pao, rows[part::parts]) for part in range(min(parts, len(rows)))]
    agents = data.draw(st.permutations(agents))
    assert same(combine(pao, agents), whole)
    one_by_one = agents[0]
    for agent in agents[1:]:
        one_by_one = combine(pao, [agent, one_by_one])
    assert same(one_by_one, whole)
    each = lift_each(pao, [value for value, _ in rows], time=[time for _, time in rows])
    assert repr(lower(pao, each)) == repr(lower(pao, whole))


@pytest.mark.parametrize("name", PAOS)
def test_nothing_added_is_nothing_changed(name: str) -> None:
    make, type_ = PAOS[name]
    if name == "COUNT(*)":
        return
    pao = make()
    value = {"boolean": True, "string": "a", "any": "a"}.get(type_, 7)
    states = lift(pao, [value], time=[1])
    nothing = lift(pao, [None], time=[0])
    assert same(combine(pao, [states, nothing]), states)
    assert same(combine(pao, [nothing, nothing]), nothing)
    assert lower(pao, nothing) == [0 if name == "COUNT" else None]
    assert lower(pao, states.clear()) == []


TEXTS = st.text(max_size=8) | st.from_regex(
    r"-?[0-9]{1,19} -?[0-9]{1,3} 0 -?[0-9a-f]{1,9}p[0-9]{1,4}( 1p[0-9])?", fullmatch=True
)
PARTS: dict[pl.DataType, st.SearchStrategy[object]] = {
    pl.String(): TEXTS,
    pl.Boolean(): st.booleans(),
    pl.Float64(): st.floats(),
    pl.Int64(): st.integers(-(2**63), 2**63 - 1),
    pl.Int128(): st.integers(-(2**127), 2**127 - 1),
}


@pytest.mark.parametrize("name", PAOS)
@settings(max_examples=settings.default.max_examples // 4)
@given(st.data())
def test_false_states_give_false_results_and_no_error(name: str, data: st.DataObject) -> None:
    pao = PAOS[name][0]()
    rows = st.lists(st.tuples(*(st.none() | PARTS[dtype] for dtype in pao.state.values())), min_size=1, max_size=3)
    states = (
        pl.DataFrame(data.draw(rows), schema=pao.state, orient="row").with_columns(pane=0).select("pane", *pao.state)
    )
    lower(pao, states)
    lower(pao, combine(pao, [states, states]))
    if pao.subtract() is not None:
        lower(pao, subtract(pao, combine(pao, [states]), combine(pao, [states, states])))


@pytest.mark.parametrize("name", PAOS)
def test_the_check_for_developers_finds_nothing_wrong(name: str) -> None:
    make, type_ = PAOS[name]
    values = {
        "boolean": pl.Series([True, None, False, True, True]),
        "string": pl.Series(["b", "", None, "a", "b", "é", "b"]),
        "any": pl.Series(["b", "", None, "a", "b", "é", "b"]),
        "integer": pl.Series([2**63 - 1, None, -(2**63), 5, 5, 7, 8, 9]),
        "number": pl.Series([1e300, None, -1e300, 0.1, 0.2, 0.3, 5e-324, 1e18]),
    }[type_]
    check_algebra(make(), values, time=pl.Series([n % 3 for n in range(len(values))], dtype=pl.Int64))
