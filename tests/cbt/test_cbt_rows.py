"""A row buffer keeps exactly the rows that sorting everything would put first."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import Key, Order, RowBuffer, canonical_json, decode_frame, encode_frame

COLUMNS = [Key("c0", "any"), Key("c1", "string")]
ORDER = [Order("o0", True, "number"), Order("o1", False, "string")]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([None, 0.0, 1.5, -2.0]),
        st.sampled_from([None, "", "b"]),
        st.sampled_from([None, True, 1, 1.0, "1", 2.5]),
        st.sampled_from([None, "", "é"]),
    ),
    max_size=30,
)
Row = tuple[int, float | None, str | None, object, str | None]


def first(rows: list[Row], limit: int) -> list[tuple[object, ...]]:
    """The model: sort all, take `limit` of each pane."""
    stored = [(*row[:3], canonical_json(pl.Series([row[3]])).item(), row[4]) for row in rows]

    def order(row: tuple[object, ...]) -> list[object]:
        pane, o0, *rest = row
        number = -o0 if isinstance(o0, float) else 0.0
        return [pane, o0 is None, number, *((text is None, text or "") for text in rest)]

    stored.sort(key=order)
    panes = {row[0] for row in stored}
    return [row for pane in sorted(panes) for row in [row for row in stored if row[0] == pane][:limit]]


def fill(buffer: RowBuffer, rows: list[Row]) -> RowBuffer:
    for row in rows:
        names = ("pane", "o0", "o1", "c0", "c1")
        buffer.insert(pl.DataFrame({name: [value] for name, value in zip(names, row, strict=True)}))
    buffer.check()
    return buffer


def kept(buffer: RowBuffer, pane: int | None = None) -> list[tuple[object, ...]]:
    return [row for frame in buffer.flush(pane) for row in frame.rows()]


@given(ROWS, st.integers(0, 4))
def test_equals_sorting_everything(rows: list[Row], limit: int) -> None:
    buffer = fill(RowBuffer(COLUMNS, ORDER, limit), rows)
    expected = first(rows, limit)
    assert kept(buffer) == kept(buffer) == expected
    assert kept(buffer, 1) == [row for row in expected if row[0] == 1]
    buffer.empty(1)
    assert kept(buffer) == [row for row in expected if row[0] != 1]
    assert [row for frame in buffer.flush(upto=1) for row in frame.rows()] == [row for row in expected if row[0] < 1]
    buffer.empty(upto=1)
    assert kept(buffer) == [row for row in expected if row[0] == 2]
    buffer.empty()
    assert kept(buffer) == []
    assert buffer.memory_bytes == 0


@given(ROWS, st.integers(1, 4), st.integers(1, 5))
def test_combining_buffers_equals_one_buffer(rows: list[Row], limit: int, parts: int) -> None:
    buffers = [fill(RowBuffer(COLUMNS, ORDER, limit), rows[part::parts]) for part in range(parts)]
    root = RowBuffer(COLUMNS, ORDER, limit)
    wire = [encode_frame(frame) for buffer in buffers for frame in buffer.flush()]
    combined = root.combine(decode_frame(data, root.schema, bytes_max=10**6) for data in wire)
    assert combined.schema == root.schema
    assert combined.rows() == first(rows, limit)


def test_it_stays_small() -> None:
    buffer = RowBuffer([Key("c0", "integer")], [Order("o0", True, "integer")], limit=10)
    for start in range(0, 200_000, 10_000):
        numbers = range(start, start + 10_000)
        buffer.insert(pl.DataFrame({"pane": [0] * 10_000, "o0": numbers, "c0": numbers}))
        assert buffer.memory_bytes < 10**6
    assert [row[2] for row in kept(buffer)] == list(range(199_999, 199_989, -1))


def test_wrong_input_is_refused() -> None:
    buffer = RowBuffer(COLUMNS, ORDER, 5)
    with pytest.raises(ValueError, match="lacks column 'o0'"):
        buffer.insert(pl.DataFrame({"pane": [0]}))
    with pytest.raises(ValueError, match="limit"):
        RowBuffer(COLUMNS, ORDER, -1)
    with pytest.raises(ValueError, match="distinct"):
        RowBuffer([Key("o0", "any")], ORDER, 1)
    with pytest.raises(ValueError, match="type 'any'"):
        Order("o0", False, "any")
