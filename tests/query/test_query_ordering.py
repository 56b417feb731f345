"""The order of rows, by whichever way it is found, is that of the columns, NULL last."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from query.execution.ordering import in_order

INTEGERS = st.none() | st.integers(-3, 3) | st.sampled_from((-(2**63), 2**63 - 1, 2**40))
TEXTS = st.none() | st.sampled_from(("", "a", "a!", "ab", "b", "é", "\0", "a" * 20)) | st.text(max_size=3)
ROWS = st.lists(st.tuples(st.sampled_from((-30, 0, 30, 2**50)), INTEGERS, TEXTS), min_size=1, max_size=40)


def _rank(value: int | str | None, *, is_descending: bool) -> tuple[bool, list[int]]:
    """What Python compares as the column orders the value."""
    points = [] if value is None else [value] if isinstance(value, int) else [*value.encode(), -1]
    return value is None, [-point for point in points] if is_descending else points


@given(ROWS, st.permutations(("pane", "s0", "s1")), st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_rows_are_in_the_order_of_their_columns(
    rows: list[tuple[int, int | None, str | None]], names: list[str], descends: tuple[bool, bool, bool]
) -> None:
    schema = {"pane": pl.Int64, "s0": pl.Int64, "s1": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(v0=pl.int_range(pl.len()))
    descending = dict(zip(names, descends, strict=True))

    ordered = in_order(frame, descending)

    assert ordered.columns == ["pane", "v0"]
    assert sorted(ordered["v0"]) == list(range(len(rows)))
    ranks = [
        [_rank(value, is_descending=descending[name]) for name in names for value in [frame[name][row]]]
        for row in ordered["v0"]
    ]
    assert ranks == sorted(ranks)
