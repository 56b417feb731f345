"""Lines that the scanner passes over are those that fail the tests, and nothing else about them is lost."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_ways import rows_of

from agent.parsing import ColumnTest, Parsed, SourceColumn
from agent.parsing.combined import CombinedParser
from agent.parsing.formats import Format
from agent.parsing.json_lines import JsonParser
from agent.parsing.native import json_scanner, native_status
from agent.sources import Block, Origin

ARRIVAL_MS = 1_700_000_000_000
COLUMNS = [
    SourceColumn("a", ("a",), "any"),
    SourceColumn("n", ("n",), "number"),
    SourceColumn("i", ("b", "i"), "integer"),
    SourceColumn("s", ("s",), "string"),
    SourceColumn("when", ("when",), "timestamp"),
]
FORMS = [Format("json", None), Format("json", "t"), Format("json", "when"), Format("json", "b.t")]
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
native = pytest.mark.skipif(json_scanner([("a",)]) is None, reason=f"lines are parsed {native_status()}")

numbers = st.sampled_from([0, -0.0, 1, 1.5, -3, 2**53, 2**53 + 1, 2**53 + 2.0, 10**17, 10**30, 0.1, 1e300])
texts = st.sampled_from(["", "a", "ab", "abc", "b", "é", "éa", "x" * 12, "x" * 13, "x" * 13 + "y", "tab\t" * 5])
times = st.sampled_from(
    [1.7e9, 1_700_000_000_123, "2024-05-17T10:05:03.5Z", "soon", -1, 10**16, None, True, "17/May/2015:10:05:03 +0000"]
)
values = st.none() | st.booleans() | numbers | texts | st.just([1]) | st.just({"x": 1})
objects = st.fixed_dictionaries(
    {},
    optional={
        "a": values, "n": values, "s": values, "t": times, "when": times,
        "b": st.fixed_dictionaries({}, optional={"i": values, "t": times}) | values,
    },
)  # fmt: skip
comparisons = st.sampled_from([*HOLDS, "begins with"])
column_tests = st.builds(
    ColumnTest, st.sampled_from(["a", "n", "i", "s", "when", "no such"]), comparisons, numbers | texts
)
clauses_of_tests = st.lists(st.lists(column_tests, min_size=1, max_size=3), max_size=3)


def _holds(test: ColumnTest, row: dict[str, Any]) -> bool:
    """Whether a test holds; one that the scanner must not make counts as one that does."""
    value, constant = row.get(test.column), test.constant
    if test.column not in row or test.column == "when":
        return True
    if value is None:
        return False
    if isinstance(value, bool) or isinstance(value, str) != isinstance(constant, str):
        return True
    if test.comparison == "begins with":
        return not isinstance(value, str) or value.startswith(str(constant))
    if isinstance(value, str):
        return HOLDS[test.comparison](value.encode(), str(constant).encode())
    return HOLDS[test.comparison](value, constant)


def _passing(parsed: Parsed, clauses: list[list[ColumnTest]]) -> list[str]:
    rows = [
        repr(sorted((name, value) for name, value in row.items() if name != "@coerced"))
        for frame in parsed.frames
        for row in frame.iter_rows(named=True)
        if all(any(_holds(test, row) for test in clause) for clause in clauses)
    ]
    return sorted(rows)


def _times(parsed: Parsed) -> list[int]:
    frames = [*parsed.frames, *(() if parsed.passed_over is None else (parsed.passed_over.times,))]
    return sorted(time for frame in frames for time in frame["@time"].to_list())


def _coerced(parsed: Parsed) -> int:
    return sum(frame["@coerced"].sum() for frame in parsed.frames if "@coerced" in frame.columns)


def _valued(parsed: Parsed) -> set[str]:
    found = set() if parsed.passed_over is None else set(parsed.passed_over.valued)
    return found | {
        name for frame in parsed.frames for name in frame.columns if frame[name].null_count() < frame.height
    } - {"@time", "@coerced"}


@native
@given(st.lists(objects, max_size=12), clauses_of_tests, st.sampled_from(FORMS))
def test_what_is_passed_over_fails_and_is_counted(
    events: list[dict[str, Any]], clauses: list[list[ColumnTest]], form: Format
) -> None:
    lines = [json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in events]
    block = Block("\n".join([*lines, "no object"]).encode(), Origin("web.log", 0), 0)
    passing, exact = JsonParser(form, COLUMNS, clauses), JsonParser(form, COLUMNS)
    assert passing._scanner is not None
    exact._scanner = None
    found, whole = passing.parse(block, ARRIVAL_MS), exact.parse(block, ARRIVAL_MS)
    assert _passing(found, clauses) == _passing(whole, clauses)
    assert _times(found) == _times(whole)
    assert _coerced(found) == _coerced(whole)
    assert _valued(found) == _valued(whole)
    assert found.malformed == whole.malformed


@native
def test_clean_lines_that_fail_are_not_built() -> None:
    lines = (
        b'{"t":1,"s":"kept"}\n{"t":2,"s":"other"}\n{"t":3,"s":7}\n{"s":"other"}\n{"t":5,"s":"a longer text"}\n{"t":6}\n'
    )
    parser = JsonParser(Format("json", "t"), COLUMNS, [[ColumnTest("s", "=", "kept")]])
    parsed = parser.parse(Block(lines, Origin("web.log", 0), 0), ARRIVAL_MS)
    assert parsed.passed_over is not None
    assert parsed.passed_over.times["@time"].to_list() == [2000, 5000, 6000]
    assert parsed.passed_over.valued == {"s"}
    assert [time for frame in parsed.frames for time in frame["@time"]] == [1000, 3000]
    assert (parsed.malformed, _coerced(parsed)) == (1, 1)


LOG = (
    b'10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /shop/a?b HTTP/1.1" 200 10 "-" "M"\n'
    b'10.0.0.2 - - [17/May/2015:10:05:04 +0000] "GET /img/b.png HTTP/1.1" 404 - "-" "M"\n'
    b'10.0.0.3 - - [17/May/2015:10:05:05 +0000] "\\x16" 400 3 "-" "M"\nnonsense\n'
    b'10.0.0.4 - - [17/May/2015:10:05:06 +0000] "POST /shop/c HTTP/1.1" 503 999999999 "-" "M"\n'
)


@native
@pytest.mark.parametrize(
    ("clauses", "kept"),
    [
        ([[ColumnTest("p", "begins with", "/shop/")]], [3, 6]),
        ([[ColumnTest("st", ">=", 400)], [ColumnTest("p", "<", "/j"), ColumnTest("st", "=", 503)]], [4, 6]),
        ([[ColumnTest("size", "<", 10.5)]], [3, 5]),
        ([[ColumnTest("x", "=", "a")]], [3, 4, 5, 6]),
    ],
)
def test_lines_of_combined_logs_are_passed_over(clauses: list[list[ColumnTest]], kept: list[int]) -> None:
    columns = [
        SourceColumn("p", ("path",), "string"),
        SourceColumn("st", ("status",), "number"),
        SourceColumn("size", ("body_bytes_sent",), "number"),
        SourceColumn("x", ("x",), "any"),
    ]
    block, form = Block(LOG, Origin("web.log", 0), 0), Format("combined", "time")
    found = CombinedParser(form, columns, clauses).parse(block, 0)
    exact = CombinedParser(form, columns)
    exact._scanner = None
    whole = exact.parse(block, 0)
    seconds = sorted(time // 1000 % 60 for frame in found.frames for time in frame["@time"])
    irregular = [5]  # read by the exact parser, which passes over nothing
    assert seconds == sorted({*kept, *irregular})
    assert (_times(found), found.malformed) == (_times(whole), whole.malformed)
    assert _valued(found) == _valued(whole)
    everything = CombinedParser(form, columns).parse(block, 0)
    assert rows_of(everything) == rows_of(whole)
