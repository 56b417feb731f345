"""Declared elements work on columns: how much Python runs does not depend on how many events a batch has.

All calls of functions in Python count, those of libraries too, for batches as large as a busy host gives its elements:
it puts waiting ones together. At most one call for a hundred events is allowed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars as pl
import pytest
from driven_elements import Fields, aggregate
from seeds import seeds

from agent.programs.element_graph import Element, ElementInput, EventType
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.runtime import DTYPES, Emitted
from agent.runtime.keyed.hosting.slot import MERGED_ROWS_MAX
from agent.runtime.keyed.logical_nodes import nodes_of

ROOT = Path(__file__).parents[3]
SPAN_MS = 200
ROWS, BATCHES, KEYS = MERGED_ROWS_MAX, 16, 100_000
WINDOWS_BATCHES = 32
"""Batches for windows: they made 11,500 calls for the first sixteen, 7,800 for the next."""
CALLS_MAX = 0.01
"""Calls for each event."""
FIELDS: Fields = [("word", "string"), ("user", "integer"), ("n", "number")]
TYPES = {name: EventType(name, FIELDS) for name in ("Event", "Click")}
JOINED = {"left": "Event", "right": "Click", "on": ["word"], "within_ms": 1000}
SLOW = ("pairs", "windows")
"""Those that take longest."""
ELEMENTS = {
    "count": aggregate("COUNT(*) AS c", FIELDS, ["word"]),
    "averages": aggregate("AVG(n) AS a, MIN(n) AS l, SUM(user) AS s", FIELDS, ["word"], ttl_s=60.0),
    "windows": aggregate("COUNT(*) AS c, AVG(n) AS a", FIELDS, ["word"], "1 MINUTE EVERY 10 SECONDS"),
    "top": Element(
        "T", "top", [ElementInput("Event", ["user"])], "Out", 1.0, options={"of": "word", "by": "n", "k": 10}
    ),
    "first": Element(
        "J",
        "join",
        [ElementInput("Event", ["word"]), ElementInput("Click", ["word"])],
        "Out",
        options=JOINED | {"flag": "clicked"},
    ),
    "pairs": Element(
        "J",
        "join",
        [ElementInput("Event", ["word"]), ElementInput("Click", ["word"])],
        "Out",
        options=JOINED | {"mode": "all", "outer": True},
    ),
    "exchange": Element("X", "exchange", [ElementInput("Event", ["word"])], "Click", grouping="fish", workers=64),
}


def frames(key: str, rows: int, batches: int = BATCHES) -> Iterator[tuple[str, pl.DataFrame]]:
    """Batches of both types in turn, 200 ms each."""
    random = np.random.default_rng(26)
    words = pl.Series("word", [f"word {number}" for number in range(KEYS)])
    for batch in range(batches):
        fields = pl.DataFrame(
            {
                "word": words[random.integers(0, KEYS, rows)],
                "user": random.integers(0, 100, rows),
                "n": random.random(rows),
            },
            schema={name: DTYPES[type_] for name, type_ in FIELDS},
        )
        times = pl.Series("@time", np.sort(random.integers(0, SPAN_MS, rows)) + SPAN_MS * batch)
        head = [times, pl.Series("@source", [1] * rows), pl.Series("@seq", range(rows)), nodes_of([fields[key]])]
        yield ("Event", "Click")[batch % 2], pl.DataFrame([*head, *fields.get_columns()])


class Calls:
    """Counts calls of functions written in Python, libraries included."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, act: Callable[[], Any]) -> None:
        """Counts the calls while something runs."""
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            act()
        finally:
            sys.setprofile(before)

    def _note(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.count += event == "call"


def calls(element: Element, rows: int, batches: int) -> Calls:
    """The calls for batches of so many rows, with a watermark and a commit after every sixteenth."""
    runtime = declared.runtime_of(element, TYPES, None)
    reads = {read.type for read in element.inputs}
    key = (element.inputs[0].key or [])[0]
    emitted: list[Emitted] = []
    counted = Calls()
    given, frame = next(frames(key, 10))
    runtime.process(given, frame, emitted.extend)  # what is compiled once
    for number, (type_, frame) in enumerate(frames(key, rows, batches)):
        given = type_ if type_ in reads else "Event"
        counted.of(lambda given=given, frame=frame: runtime.process(given, frame, emitted.extend))  # type: ignore[misc]
        if number % 16 == 15:
            counted.of(lambda number=number: runtime.advance(SPAN_MS * number, emitted.extend))  # type: ignore[misc]
            counted.of(lambda: runtime.take_changes(lambda _tables: None))
    runtime.advance(3_600_000, emitted.extend)
    assert sum(one.rows.height for one in emitted)
    return counted


@pytest.mark.parametrize("name", seeds(*(one for one in ELEMENTS if one not in SLOW), slow=SLOW))
def test_python_calls_for_each_event_are_few(name: str) -> None:
    element = ELEMENTS[name]
    declared.check(element, TYPES)
    batches = WINDOWS_BATCHES if name == "windows" else BATCHES
    found = calls(element, ROWS, batches)
    assert found.count / (ROWS * batches) < CALLS_MAX, f"{found.count:,} calls for {ROWS * batches:,} events"
