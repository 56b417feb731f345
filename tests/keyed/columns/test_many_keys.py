"""Declared elements of more keys than fit: memory stays within its bound, and what had to go is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from driven_elements import Fields, aggregate

from agent.programs.element_graph import Element, ElementInput, EventType
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.runtime import Emitted
from agent.runtime.keyed.logical_nodes import nodes_of

ROOM, ROWS = 32 << 20, 1 << 16
FIELDS: Fields = [("word", "string"), ("n", "integer")]
TYPES = {name: EventType(name, FIELDS, guaranteed=False) for name in ("Event", "Click")}
JOINED = {"left": "Event", "right": "Click", "on": ["word"], "within_ms": 10**9, "flag": "clicked"}
READ = ElementInput("Event", ["word"])
ELEMENTS = {
    "count": aggregate("COUNT(*) AS c", FIELDS, ["word"]),
    "top": Element("T", "top", [ElementInput("Event", [], 1)], "Out", 1.0, options={"of": "word", "by": "n", "k": 3}),
    "join": Element("J", "join", [READ, ElementInput("Click", ["word"])], "Out", options=JOINED),
}


def batches(element: Element, keys: int) -> Iterator[pl.DataFrame]:
    """Events of different keys, one each."""
    for start in range(0, keys, ROWS):
        numbers = pl.Series("n", np.arange(start, min(start + ROWS, keys)))
        word = pl.select(pl.format("word number {}", numbers).alias("word")).to_series()
        times, zeros = numbers.rename("@time"), numbers * 0
        node = nodes_of([word]) if element.inputs[0].key else nodes_of([zeros + 1])
        yield pl.DataFrame([times, zeros.alias("@source"), numbers.alias("@seq"), node, word, numbers])


@pytest.mark.slow
@pytest.mark.parametrize("keys", [1_000_000, 10_000_000])
@pytest.mark.parametrize("name", ELEMENTS)
def test_memory_is_bounded_whatever_the_number_of_keys(name: str, keys: int) -> None:
    element = ELEMENTS[name]
    declared.check(element, TYPES)
    runtime: Any = declared.runtime_of(element, TYPES, None)
    emitted: list[Emitted] = []
    evicted = most = 0
    for rows in batches(element, keys):
        runtime.process("Event", rows, emitted.extend)
        if runtime.memory_bytes > ROOM:
            most = max(most, runtime.memory_bytes)
            evicted += runtime.evict(ROOM, 0)
            assert runtime.memory_bytes <= ROOM
        emitted.clear()
    assert evicted > 0
    assert most < 3 * ROOM
    assert runtime.evicted == evicted
    assert runtime.elements == keys - evicted
