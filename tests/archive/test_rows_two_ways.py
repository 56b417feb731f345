"""The native scanner makes the rows that the exact parsers make, column by column, whatever the lines hold."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from archived import read_in, rows_of_file
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from agent.archive.format.rows import ArchiveRows
from agent.parsing import Format, combined, json_lines
from agent.parsing.native import json_scanner, native_status

native = pytest.mark.skipif(json_scanner([("a",)]) is None, reason=f"lines are parsed {native_status()}")
JSON_FORMS = [Format("json", name, ()) for name in (None, "time", "a.b", "u.t")]

SCALARS = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text('ab"\\é\0\n', max_size=14)
    | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 10**19, 1e300, "2024-01-01T00:00:00Z"])
)  # fmt: skip
KEYS = st.sampled_from(["time", "a", "b", "u", "t", "a.b", 'q"', ""])
OBJECTS = st.dictionaries(
    KEYS, SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(KEYS, SCALARS, max_size=3), max_size=4
)
ODD = [b"", b" ", b"\r", b"{", b"{}{}", b'{"a": 1', b"\xff", b'{"time": 4, "a": "x"} {"time": 1}', b'{"a": 1e999}',
       b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}', b'{"u": {}}', b'{"u": {"t": {}}}', b"{}\r", b"null",
       b"\0{}"]  # fmt: skip
LINES = OBJECTS.map(lambda event: json.dumps(event).encode()) | st.sampled_from(ODD)
REGULAR = st.fixed_dictionaries(
    {"time": st.integers(1, 9)},
    optional={"a": st.integers(-9, 9) | st.floats(-9, 9), "u": st.fixed_dictionaries({"t": st.text(max_size=14)})},
).map(lambda event: json.dumps(event).encode())


def seen(lots: list[ArchiveRows]) -> list[object]:
    """All that rows hold, told apart by type."""
    return [
        (
            *(
                (series.dtype, list(map(repr, series)))
                for series in (rows.times, rows.offsets, rows.events, rows.lines)
            ),
            [(name, field.kind, list(map(repr, field.values))) for name, field in rows.fields.items()],
            (rows.is_complete, rows.first_ms, rows.last_ms, rows.malformed, rows.overlong, rows.bytes),
        )
        for rows in lots
    ]


def both_ways(form: Format, texts: list[bytes]) -> tuple[list[object], list[object]]:
    scanned = seen(read_in(form, texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "json_scanner", lambda *_, **__: None)
        patch.setattr(combined, "combined_scanner", lambda *_: None)
        return scanned, seen(read_in(form, texts))


@native
@given(st.lists(st.lists(REGULAR | LINES, min_size=1, max_size=6), min_size=1, max_size=5), st.sampled_from(JSON_FORMS))
def test_rows_of_any_json_are_the_same(blocks: list[list[bytes]], form: Format) -> None:
    scanned, exact = both_ways(form, [b"".join(line + b"\n" for line in lines) for lines in blocks])
    assert scanned == exact


@native
@given(
    st.lists(REGULAR, min_size=1, max_size=9), st.lists(st.lists(REGULAR | LINES, min_size=1, max_size=3), max_size=4)
)
def test_odd_lines_among_regular_ones_make_the_same_rows(first: list[bytes], blocks: list[list[bytes]]) -> None:
    texts = [b"".join(line + b"\n" for line in [*first, *lines]) for lines in [[], *blocks]]
    scanned, exact = both_ways(Format("json", "time", ()), texts)
    assert scanned == exact


COMBINED = (
    '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif?a=b HTTP/1.0" 200 2326 "http://www.example.com/" "M"',
    '::1 - - [31/Dec/1999:23:59:59 +0530] "GET /\u00fc HTTP/2.0" 304 -',
    '10.0.0.1 - - [01/Jan/2024:00:00:00 +0000] "\\x16\\x03" 400 150 "-" "-" "10.0.0.2" 0.003',
    '10.0.0.1 - a b [01/Jan/2024:00:00:01 +0000] "GET /\\"a\\" HTTP/1.1" 400 99999999999999999999 "-" "open',
    '10.0.0.1 - - [01/Jan/2024:00:00:01 +0000] "-" 408 0 "" ""',
    "", " ", "\r", "no line of a log",
)  # fmt: skip


@native
@given(st.lists(st.lists(st.sampled_from(COMBINED), min_size=1, max_size=6), min_size=1, max_size=3), st.randoms())
def test_rows_of_combined_logs_are_the_same(blocks: list[list[str]], chance: random.Random) -> None:
    texts = ["\n".join(lines) + chance.choice(["\n", "\n", "\r\n", ""]) for lines in blocks]
    damaged = [text.encode().replace(b"1", chance.choice([b"1", b"1", b"\xff", b'"']), 3) for text in texts]
    scanned, exact = both_ways(Format("combined", "time", ()), [text for text in damaged if text])
    assert scanned == exact


@native
@pytest.mark.parametrize(
    "name",
    seeds("apache/access.log.gz", "wiki/edits.json.gz", "odd/nasa-broken-lines.log.gz", slow=["github/events.json.gz"]),
)
def test_rows_of_real_logs_are_the_same(name: str, real_logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = seen(rows_of_file(real_logs / name)[1])
    monkeypatch.setattr(json_lines, "json_scanner", lambda *_, **__: None)
    monkeypatch.setattr(combined, "combined_scanner", lambda *_: None)
    assert scanned == seen(rows_of_file(real_logs / name)[1])


def test_a_time_field_that_comes_late_is_a_column_like_any_other() -> None:
    lots = read_in(Format("json", "time", ()), [b'{"a": 1}\n', b'{"time": 5, "a": 2}\n', b'{"time": 6, "a": 3}\n'])
    assert [list(rows.fields) for rows in lots[1:]] == [["a", "time"]] * 2
    assert lots[2].fields["time"].values.to_list() == [6]


def test_a_field_with_values_that_becomes_an_object_keeps_them_all() -> None:
    lots = read_in(Format("json", None, ()), [b'{"p": null}\n', b'{"p": 1}\n', b'{"p": {"x": 2}}\n'])
    assert [lots[n].fields["p"].values.to_list() for n in (1, 2)] == [[1], ['{"x":2}']]
    assert not lots[2].is_complete
