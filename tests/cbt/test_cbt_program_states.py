"""Bags of values and states that a program folds elsewhere: what frames keep of them, and what takes their place."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import Aggregate, CompressedBufferTree, Key
from cbt.aggregates.program_states import ProgramStates

KEYS = [Key("k", "string")]
AGGREGATES = [Aggregate("n", "count", None, "integer"), Aggregate("top", "of_program", "x", "string", (2,))]
LAYOUT = CompressedBufferTree(KEYS, AGGREGATES).layout
Event = tuple[int, str, str | None]
EVENTS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.none() | st.sampled_from("xyz")), max_size=20)


def lifted(some: list[Event]) -> pl.DataFrame:
    panes, keys, values = zip(*some, strict=True) if some else ((), (), ())
    schema = {"pane": pl.Int64, "k": pl.String, "x": pl.String}
    return LAYOUT.lift(pl.DataFrame({"pane": panes, "k": keys, "x": values}, schema=schema))


def groups_of(frame: pl.DataFrame) -> list[tuple[int, str]]:
    """The groups of a frame by their numbers."""
    seen = frame.select("pane", "k").unique(maintain_order=True).rows()
    return [(pane, key.strip('"')) for pane, key in seen]


@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_bags_are_added_up_and_merged_no_further(dealt: list[list[Event]]) -> None:
    frame = LAYOUT.combine([lifted(mine) for mine in dealt])
    (bag,) = LAYOUT.bags(frame).values()
    named = groups_of(frame)
    found = {(*named[group], text): n for group, text, n in bag.rows()}
    texts = ((pane, key, None if x is None else f"v{x}") for mine in dealt for pane, key, x in mine)
    assert found == Counter(texts)


@given(EVENTS)
def test_what_a_program_has_made_takes_the_place_of_all_rows_of_a_group(some: list[Event]) -> None:
    frame = lifted(some)
    (bag,) = LAYOUT.bags(frame).values()
    numbers = bag[":group"].unique(maintain_order=True)
    texts = pl.Series("top.text", [f'r"{number}"' for number in numbers], dtype=pl.String)
    made = pl.DataFrame([numbers, texts]).with_columns(pl.lit(1, dtype=pl.Int64).alias("top.n"))
    folded = LAYOUT.folded(frame, {"top": made})
    assert folded.height == 2 * len(numbers)
    named = groups_of(frame)
    rows = {(pane, key.strip('"')): (n, top) for pane, key, n, top in LAYOUT.lower(folded).rows()}
    assert rows == {group: (sum(one[:2] == group for one in some), str(number)) for number, group in enumerate(named)}
    assert LAYOUT.combine([folded, LAYOUT.empty()]).equals(folded)


@pytest.mark.parametrize(
    ("number", "text", "result"), [(0, "1.5", 1.5), (1, "7", 7), (2, '"a"', "a"), (3, "true", True)]
)
def test_results_have_their_types(number: int, text: str, result: object) -> None:
    bag = ProgramStates("top", number)
    rows = pl.DataFrame({"k": [1, 2, 3], "top.text": [f"r{text}", "rnull", "v{}"], "top.n": [1, 1, 1]})
    assert sorted(bag.lower(rows, ["k"]).rows()) == [(1, result), (2, None), (3, None)]


def test_what_a_false_peer_claims_is_no_value_and_no_error() -> None:
    bag = ProgramStates("top", 1)
    texts = ['r"a"', "r{", "x", "", None, "v{}", "sAA=="]
    claimed = pl.DataFrame({"k": range(7), "top.text": texts, "top.n": [1, 2, -5, None, 1 << 62, 3, 0]})
    assert bag.lower(claimed, ["k"])["top"].to_list() == [None] * 7
    known = bag.known(claimed)
    assert known["top.text"].to_list() == [None, None, None, None, None, "v{}", "sAA=="]
    assert known["top.n"].to_list() == [1, 2, 0, 0, 1 << 47, 3, 0]


def test_types_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="there is no type 4 of results"):
        ProgramStates("top", 4)
