"""What other systems send as events is checked field by field; a fault names the line, the field and what it is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbt
from agent.programs.element_graph import EventType
from agent.runtime.keyed.intake.event_input import (
    AHEAD_MAX_MS,
    LINES_MAX,
    ROWS_MAX,
    EventFault,
    rows_of_columns,
    rows_of_lines,
)

NOW_MS = 1_790_000_000_000
TYPE = EventType(
    "Word", [("word", "string"), ("n", "integer"), ("share", "number"), ("bot", "boolean"), ("at", "timestamp"),
             ("more", "any")],
)  # fmt: skip


def test_lines_become_events_with_their_numbers() -> None:
    lines = (
        b'{"word": "said", "n": 2, "share": 1, "bot": false, "at": "2026-01-01T00:00:00Z", "more": {"b": [1]}}\n\n{}'
    )
    rows = rows_of_lines(TYPE, lines, 7, "", NOW_MS)
    first = (NOW_MS, 7, "said", 2, 1.0, False, 1_767_225_600_000, '{"b":[1]}')
    assert rows.rows() == [first, (NOW_MS, 9, *[None] * 6)]
    dtypes = [pl.Int64, pl.Int64, pl.String, pl.Int64, pl.Float64, pl.Boolean, pl.Int64, pl.String]
    assert rows.dtypes == dtypes


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"word", "no JSON"),
        (b"[]", 'an event is a JSON object, as {"word": …, "n": …, "share": …}'),
        (b'{"wrod": "a"}', "Word has no field 'wrod'; it has word, n, share, bot, at, more"),
        (b'{"word": 1}', "the field word is of type string, and 1 is not"),
        (b'{"n": 1.5}', "the field n is of type integer, and 1.5 is not"),
        (b'{"n": true}', "the field n is of type integer, and true is not"),
        (b'{"n": 9223372036854775808}', "the field n is of type integer"),
        (b'{"share": "1"}', 'the field share is of type number, and "1" is not'),
        (b'{"at": "soon"}', 'the field at is of type timestamp, and "soon" is not'),
        (b'{"more": ' + b"[" * 5000 + b"}", "no JSON"),
        (b'{"word": "\xff"}', "no JSON"),
    ],
)
def test_a_fault_names_the_line_and_the_field(line: bytes, fault: str) -> None:
    with pytest.raises(EventFault) as raised:
        rows_of_lines(TYPE, b'{"word": "fine"}\n' + line, 41, "", NOW_MS)
    assert str(raised.value).startswith(f"line 43: {fault}")


def test_the_time_of_an_event_is_in_the_field_that_is_named() -> None:
    for time in (str(NOW_MS - 5), '"2026-09-21T13:46:39.995Z"'):
        rows = rows_of_lines(TYPE, f'{{"word": "a", "t": {time}}}'.encode(), 0, "t", NOW_MS)
        assert rows["@time"].to_list() == [1_789_999_999_995 if time[0] != '"' else rows["@time"][0]]
        assert "t" not in rows.columns
    for time, fault in (
        ("null", "is none"),
        ('"noon"', 'is "noon"'),
        (str(NOW_MS + AHEAD_MAX_MS + 1), "more than a min"),
    ):
        with pytest.raises(EventFault, match=fault):
            rows_of_lines(TYPE, f'{{"t": {time}}}'.encode(), 0, "t", NOW_MS)


def test_columns_become_events() -> None:
    frame = pl.DataFrame({"word": ["a", None], "n": [1, 2], "share": [3, 4], "more": [1.0, 2.5], "t": [5, 6]})
    kinds = [("word", "string"), ("n", "integer"), ("share", "integer"), ("more", "number"), ("t", "integer")]
    rows = rows_of_columns(TYPE, kinds, cbt.encode_frame(frame), 8192, "t", NOW_MS)
    assert rows.rows() == [(5, 8192, "a", 1, 3.0, None, None, "1"), (6, 8193, None, 2, 4.0, None, None, "2.5")]


@pytest.mark.parametrize(
    ("kinds", "fault"),
    [
        ([("word", "integer")], "the field word is of type string, and its column holds integer"),
        ([("wrod", "string")], "Word has no field 'wrod'"),
        ([("word", "list")], "columns of events are of the types string, integer, number, boolean"),
        ([("word", "string"), ("word", "string")], "each with a name of its own"),
        ([("n", "integer"), ("word", "string")], "the frame's columns are not the expected ones"),
    ],
)
def test_columns_that_are_none_of_the_type_are_refused(kinds: list[tuple[str, str]], fault: str) -> None:
    data = cbt.encode_frame(pl.DataFrame({"word": ["a"], "n": [1]}))
    with pytest.raises(EventFault) as raised:
        rows_of_columns(TYPE, kinds, data, 0, "", NOW_MS)
    assert fault in str(raised.value)


def test_what_is_too_much_is_refused() -> None:
    with pytest.raises(EventFault, match="more than 8,192 events at once"):
        rows_of_lines(TYPE, b"{}\n" * (LINES_MAX + 1), 0, "", NOW_MS)
    data = cbt.encode_frame(pl.DataFrame({"n": range(ROWS_MAX + 1)}))
    with pytest.raises(EventFault, match="more than 65,536 events at once"):
        rows_of_columns(TYPE, [("n", "integer")], data, 0, "", NOW_MS)


def fault_of(read: Callable[[], pl.DataFrame]) -> str:
    """The fault of an input, "" where it is taken."""
    try:
        read()
    except EventFault as fault:
        return str(fault)
    return ""


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_a_fault_in_one_line(data: bytes) -> None:
    assert "\n" not in fault_of(lambda: rows_of_lines(TYPE, data, 0, "at", NOW_MS))
    assert "\n" not in fault_of(lambda: rows_of_columns(TYPE, [("n", "integer")], data, 0, "", NOW_MS))


VALUES = (
    st.none() | st.text(max_size=5) | st.integers() | st.floats() | st.booleans() | st.lists(st.integers(), max_size=2)
)


@given(st.dictionaries(st.sampled_from([name for name, _ in TYPE.fields]), VALUES))
def test_any_object_is_an_event_or_a_fault(event: dict[str, object]) -> None:
    fault = fault_of(lambda: rows_of_lines(TYPE, msgspec.json.encode(event), 0, "", NOW_MS))
    assert not fault or fault.startswith("line 1: the field ")
