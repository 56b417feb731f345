"""A row for each record of a file, whatever it is."""

import json
from pathlib import Path

import polars as pl
import pytest
from archived import ARRIVAL_MS, frame_of, read_in, rows_of_file, rows_of_text, segment_of
from hypothesis import given
from hypothesis import strategies as st

from agent.parsing import Format, SourceColumn, parser
from agent.sources import Block, Origin

COMBINED = b'10.0.0.1 - - [17/May/2015:10:05:0%d +0000] "GET /%d HTTP/1.1" 200 5 "-" "curl"\n'


def parsed_columns(frame: pl.DataFrame) -> dict[str, list[object]]:
    return {name.removeprefix("parsed:"): frame[name].to_list() for name in frame.columns if "parsed:" in name}


def test_a_line_is_a_row_with_where_it_comes_from() -> None:
    frame = frame_of(rows_of_text(b'{"time": 5, "status": 200}\n', b'{"time": 6, "status": 404}\n'))
    assert frame.select(pl.exclude("key", "raw:format")).to_dicts() == [
        {"written": 5, "raw:time": time * 1000, "raw:agent": "web-1", "raw:stream": "web", "raw:file": "a.log",
         "raw:offset": offset, "raw:events": 1, "raw:line": line, "parsed:time": time, "parsed:status": status}
        for time, offset, line, status in [
            (5, 0, b'{"time": 5, "status": 200}', 200), (6, 27, b'{"time": 6, "status": 404}', 404)]
    ]  # fmt: skip
    assert {json.loads(text)["kind"] for text in frame["raw:format"]} == {"json"}


def test_malformed_lines_are_rows_at_the_time_of_the_event_before() -> None:
    lines = [b"what?", b'{"time": 5}', b"no", b"", b'{"time": "never"}', b'{"time": 9}{"time": 2}', b"{}"]
    frame = frame_of(rows_of_text(b"\n".join(lines) + b"\n", b"no"))
    assert frame["raw:line"].to_list() == [*lines, b"no"]
    assert frame["raw:events"].to_list() == [0, 1, 0, None, 0, 2, 0, 0]
    assert frame["raw:time"].to_list() == [5000, 5000, 5000, 5000, 5000, 9000, 9000, 9000]


def test_a_file_without_any_event_is_filed_under_its_arrival() -> None:
    (rows,) = rows_of_text(b"what\nis this\n", kind="json")
    assert rows.times.to_list() == [ARRIVAL_MS] * 2
    assert (rows.malformed, len(rows)) == (2, 2)


def test_several_events_on_a_line_span_all_their_times_and_have_no_columns() -> None:
    lots = rows_of_text(b'{"time": 9, "a": 1}{"time": 2, "a": 1}\n{"time": 5, "a": 2}\n')
    assert frame_of(lots)["parsed:a"].to_list() == [None, 2]
    segment = segment_of(lots)
    assert (segment.from_ms, segment.to_ms, segment.events, segment.is_complete) == (2000, 9000, 3, False)


def test_csv_records_may_span_lines_and_the_header_is_no_event() -> None:
    text = b'time,who,"what"\n1,ann,"a ""big""\nthing"\n\n2,"bob\n3,cid,x\n'
    frame = frame_of(rows_of_text(text))
    assert frame["raw:line"].to_list() == [
        b'time,who,"what"', b'1,ann,"a ""big""\nthing"', b"", b'2,"bob', b"3,cid,x"
    ]  # fmt: skip
    assert frame["raw:events"].to_list() == [None, 1, None, 0, 1]
    assert parsed_columns(frame) == {
        "time": [None, 1, None, None, 3],
        "who": [None, "ann", None, None, "cid"],
        "what": [None, 'a "big"\nthing', None, None, "x"],
    }


def test_combined_lines_have_nginx_columns() -> None:
    frame = frame_of(
        rows_of_text(COMBINED % (3, 7) + b"\n \nnonsense\n" + COMBINED.replace(b'"GET', b'"\\"GET') % (4, 8))
    )
    assert frame["raw:events"].to_list() == [1, None, None, 0, 1]
    assert frame["parsed:status"].to_list() == [200, None, None, None, 200]
    assert frame["parsed:path"][0] == "/7"
    assert frame["parsed:time"].dt.timestamp("ms")[0] == frame["raw:time"][0]


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    lines = [b'{"time": 1, "a": "\xff\xfe"}', b"\0\0{}", b"\x80\x81", b'{"time": 1, "b": "x\r"}\r']
    assert frame_of(rows_of_text(b"\n".join(lines), kind="json", time_field="time"))["raw:line"].to_list() == lines


@pytest.mark.parametrize(
    ("values", "kind", "stored"),
    [
        ([1, None, -3], "integer", [1, None, -3]),
        ([1.5, 2], "number", [1.5, 2.0]),
        ([1.5, (1 << 53) + 1], "any", ["1.5", "9007199254740993"]),
        ([1 << 70], "any", ["1180591620717411303424"]),
        (["a", 1, True, None], "any", ['"a"', "1", "true", None]),
        ([[2, {"b": 1, "a": "é"}], []], "any", ['[2,{"a":"é","b":1}]', "[]"]),
        ([True, False], "boolean", [True, False]),
        (["", "x"], "string", ["", "x"]),
    ],
)
def test_columns_are_typed_by_what_they_hold(values: list[object], kind: str, stored: list[object]) -> None:
    lines = [json.dumps({"time": 1, "v": value}, ensure_ascii=False).encode() + b"\n" for value in values]
    for lots in (rows_of_text(b"".join(lines)), rows_of_text(*lines)):
        assert segment_of(lots).columns["v"] == kind
        assert frame_of(lots)["parsed:v"].to_list() == stored


@pytest.mark.parametrize(
    ("texts", "kind", "stored"),
    [
        (["1", "-20", ""], "integer", [1, -20, None]),
        (["007", "1"], "string", ["007", "1"]),
        (["1.50", "2"], "number", [1.5, 2.0]),
        (["1e3", "+2"], "string", ["1e3", "+2"]),
        ([" 1", "x"], "string", [" 1", "x"]),
    ],
)
def test_columns_of_csv_are_typed_by_all_their_texts(texts: list[str], kind: str, stored: list[object]) -> None:
    lines = [f"1,{text}\n".encode() for text in texts]
    lots = rows_of_text(b"time,v\n", *lines)
    assert segment_of(lots).columns["v"] == kind
    assert frame_of(lots)["parsed:v"].to_list()[1:] == stored


def test_fields_inside_objects_are_columns_and_the_objects_are_not() -> None:
    lots = rows_of_text(b'{"time": 1, "u": null, "e": {}}\n', b'{"time": 1, "u": {"id": 7, "at": {"x": "y"}}}\n')
    segment = segment_of(lots)
    assert segment.columns == {
        "time": "integer", "u.id": "integer", "u.at.x": "string", "e": "object", "u": "object", "u.at": "object"
    }  # fmt: skip
    assert segment.is_complete
    assert frame_of(lots)["parsed:u.id"].to_list() == [None, 7]


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"time": 1, "u": {"id": 7}}', b'{"time": 1, "u": 7}'],
        [b'{"time": 1, "u": 7}', b'{"time": 1, "u": {"id": 7}}'],
        [b'{"time": 1, "a.b": 7}'],
        [b'{"time": 1, "a\\"b": 7}'],
        [b'{"time": 1, "a": 1e999}'],
        [json.dumps({"time": 1} | {f"c{n}": n for n in range(70)}).encode()],
        [json.dumps({"time": 1, "deep": json.loads('{"d":' * 20 + "1" + "}" * 20)}).encode()],
        [json.dumps({"time": 1} | {f"o{n}": {} for n in range(300)}).encode()],
    ],
)
def test_a_segment_says_that_its_columns_are_not_all(lines: list[bytes]) -> None:
    lots = rows_of_text(*(line + b"\n" for line in lines))
    segment = segment_of(lots)
    assert not segment.is_complete
    assert sum(kind != "object" for kind in segment.columns.values()) <= 64
    assert frame_of(lots)["raw:line"].to_list() == lines


def test_a_field_that_becomes_text_is_kept_as_json() -> None:
    lots = rows_of_text(b'{"time": 1, "v": 200}\n', b'{"time": 2, "v": "none"}\n')
    assert segment_of(lots).columns["v"] == "any"
    assert frame_of(lots)["parsed:v"].to_list() == ["200", '"none"']


SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text('ab"\\é\n', max_size=3)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab."), inner)
)
EVENTS = st.dictionaries(st.sampled_from(["time", "a", "b", "c"]), VALUES, max_size=4).map(
    lambda event: json.dumps(event, ensure_ascii=False).encode()
)
LINES = EVENTS | st.sampled_from(
    [b"", b" ", b"{", b"{}{}", b'{"time": 3}', b"\xff", b'{"time": 4, "a": "x"} {"time": 1}']
)


@given(st.lists(st.lists(LINES, min_size=1, max_size=5), min_size=1, max_size=4), st.sampled_from([None, "time"]))
def test_rows_are_what_agents_read(blocks: list[list[bytes]], time_field: str | None) -> None:
    """Events and malformed lines are counted alike, lines come back, and single columns equal those of a parser."""
    texts = [b"".join(line + b"\n" for line in lines) for lines in blocks]
    data = b"".join(texts)
    form = Format("json", time_field, ())
    lots = read_in(form, texts)
    segment, frame = segment_of(lots), frame_of(lots)
    parsed = parser(form, [SourceColumn("b", ("b",), "any")]).parse(Block(data, Origin("", 0), 0), ARRIVAL_MS)
    assert frame["raw:line"].to_list() == data.split(b"\n")[:-1]
    assert (segment.events, segment.malformed) == (sum(part.height for part in parsed.frames), parsed.malformed)
    if segment.is_complete and segment.columns.get("b") not in ("any", "object", None, "number"):
        seen = [value for part in parsed.frames for value in part["b"].to_list()]
        kept = frame.filter(pl.col("raw:events") == 1)["parsed:b"].to_list()
        assert sorted(map(repr, kept)) == sorted(map(repr, seen))


CSV = st.text('a1,"\r\n\t ', max_size=60).map(str.encode)


@given(CSV, st.sampled_from(["csv", "tsv"]), st.integers(0, 1))
def test_delimited_rows_are_what_agents_read(text: bytes, kind: str, offset: int) -> None:
    form = Format(kind, None, ("x", "y"))
    parsed = parser(form, []).parse(Block(text, Origin("a.log", offset), 0), ARRIVAL_MS)
    lots = read_in(form, [text], offset=offset)
    assert bool(lots) == bool(text)
    for rows in lots:
        assert (rows.events.sum(), rows.malformed) == (sum(part.height for part in parsed.frames), parsed.malformed)
        assert b"\n".join(rows.lines.to_list()) == text.removesuffix(b"\n")


@pytest.mark.parametrize(
    "name",
    ["apache/access.log.gz", "wiki/edits.json.gz", "nasa/1995-07-01.tsv.gz", "odd/nasa-broken-lines.log.gz",
     "github/events.json.gz"],
)  # fmt: skip
def test_real_logs_come_back_byte_for_byte(name: str, real_logs: Path) -> None:
    data, lots = rows_of_file(real_logs / name)
    frame, segment = frame_of(lots), segment_of(lots)
    assert b"\n".join(frame["raw:line"].to_list()) == data.removesuffix(b"\n")
    form = lots[0].file.format
    parsed = parser(form, []).parse(Block(data, Origin("", 0), 0), ARRIVAL_MS)
    assert (segment.events, segment.malformed) == (sum(part.height for part in parsed.frames), parsed.malformed)
