"""Bytes from anyone are a sketch or a `SketchError`, never anything else, and never grow."""

from functools import cache

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt.algebra.items import ItemPao, lift_items, lower_items
from cbt.sketches import frequent_bytes, hll_bytes, kll_bytes
from cbt.sketches.frequent import FrequentItems
from cbt.sketches.hll import HllSketch
from cbt.sketches.kll import KllSketch
from cbt.sketches.wire import SketchError

SKETCHES = [
    (HllSketch("a", "integer", 4), hll_bytes),
    (HllSketch("a", "integer", 8), hll_bytes),
    (KllSketch("a", "number", 0.5, k=8), kll_bytes),
    (KllSketch("a", "integer", 0.5, k=8), kll_bytes),
    (FrequentItems("a", "integer", max_items_tracked=6), frequent_bytes),
    (FrequentItems("a", "string", max_items_tracked=6), frequent_bytes),
    (FrequentItems("a", "any", max_items_tracked=6), frequent_bytes),
]
KINDS = [f"{type(sketch).__name__} {number}" for number, (sketch, _) in enumerate(SKETCHES)]


def good_bytes(sketch: ItemPao, form: object, count: int) -> bytes:
    values = [str(i % 17) for i in range(count)] if getattr(sketch, "type", "") == "string" else range(count)
    frame = pl.DataFrame({"pane": pl.Series([0] * count, dtype=pl.Int64), "x": values})
    rows = lift_items(sketch, frame, [], "x")
    return bytes(form.to_bytes(sketch, rows, ["pane"])["a"][0])  # type: ignore[attr-defined]


@cache
def good(kind: int) -> list[bytes]:
    """Sound bytes of one of the sketches."""
    sketch, form = SKETCHES[kind]
    return [good_bytes(sketch, form, count) for count in (1, 5, 20, 300)]


CHANGES = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", range(len(SKETCHES)), ids=KINDS)
@given(st.integers(0, 3), CHANGES, st.integers(0, 400), st.binary(max_size=20))
def test_damaged_sketches(kind: int, which: int, changes: list[tuple[int, int]], end: int, tail: bytes) -> None:
    data = bytearray(good(kind)[which][:end] + tail)
    for place, byte in changes:
        if place < len(data):
            data[place] = byte
    read_and_use(kind, bytes(data))


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", range(len(SKETCHES)), ids=KINDS)
@given(st.binary(max_size=200))
def test_any_bytes(kind: int, data: bytes) -> None:
    read_and_use(kind, data)
    read_and_use(kind, good(kind)[0][:8] + data)


def read_and_use(kind: int, data: bytes) -> None:
    sketch, form = SKETCHES[kind]
    frame = pl.DataFrame({"pane": [0], "a": pl.Series([data], dtype=pl.Binary)})
    try:
        rows = form.from_bytes(sketch, frame, ["pane"])  # type: ignore[arg-type]
    except SketchError:
        return
    assert rows.height <= len(data) + 2
    assert lower_items(sketch, sketch.compact(rows, ["pane"]), []).height == 1
    form.to_bytes(sketch, rows, ["pane"])  # type: ignore[arg-type]
