"""CSV and TSV: what the csv module reads, and only malformed records lost."""

import csv
import gzip
import io
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from agent.parsing import Format, Parsed, parser, sniff
from agent.parsing.formats import LINE_FORMATS
from agent.sources import Block, Origin

CSV = Format("csv", None, ("a", "b", "c"))
TSV = Format("tsv", None, ("a", "b", "c"))
HEADER = b"a,b,c\n"


def fit(text: str, use: str) -> tuple[str, int]:
    """A field as a value, and whether it was coerced to NULL."""
    if text == "":
        return "None", 0
    if use == "string":
        return repr(text), 0
    stripped = text.strip(" \t")
    try:
        if set(stripped) <= set("0123456789+-") and -(2**63) <= int(stripped) < 2**63:
            return repr(int(stripped)), 0
        value = float(stripped) if set(stripped) <= set("0123456789+-.eE") else float("nan")
    except ValueError:
        return "None", 1
    return (repr(value), 0) if abs(value) < float("inf") else ("None", 1)


fields = st.one_of(
    st.text(alphabet='ab,"\n ', max_size=6),
    st.integers(-(2**66), 2**66).map(str),
    st.floats(allow_nan=True).map(str),
    st.sampled_from(["", " 7 ", "1e3", "007", "+5", "1_0", "0x1", "٣", "é", "inf", '5" disk']),
)
rows = st.lists(st.lists(fields, min_size=1, max_size=4), max_size=8)


@given(rows, st.sampled_from(["\n", "\r\n"]), st.integers(1, 80), st.sampled_from(["string", "number"]))
def test_csv_is_what_the_csv_module_reads(
    column: Any, parse: Any, records: list[list[str]], end: str, block_bytes: int, use: str
) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end).writerows([["a", "b", "c"], *records])
    expected = []
    for record in records:
        fitted = [fit(record[index] if index < len(record) else "", use) for index in (0, 2)]
        expected.append((7, tuple(value for value, _ in fitted), sum(coerced for _, coerced in fitted)))
    for size in (None, block_bytes):
        found = parse(stream.getvalue().encode(), CSV, [column("a", use), column("c", use)], block_bytes=size)
        assert sorted(found.rows) == sorted(expected)
        assert found.malformed == 0


@given(
    st.lists(st.lists(st.text(alphabet='ab," 1', max_size=4), min_size=2, max_size=4), max_size=8),
    st.integers(1, 40),
)
def test_tsv_has_no_quotes(column: Any, parse: Any, records: list[list[str]], block_bytes: int) -> None:
    data = "".join("\t".join(record) + "\n" for record in [["a", "b", "c"], *records]).encode()
    expected = [fit(record[1], "string")[0] for record in records]
    for size in (None, block_bytes):
        found = parse(data, TSV, [column("b", "string")], block_bytes=size)
        assert sorted(value for (value,) in found.values()) == sorted(expected)


@pytest.mark.fuzz
@given(st.text(alphabet='ab,"\n\r1é', max_size=80), st.integers(1, 50))
def test_any_csv_is_read_alike_in_any_block(column: Any, parse: Any, text: str, block_bytes: int) -> None:
    data = HEADER + text.encode()
    columns = [column("a", "number"), column("b", "string")]
    whole, cut = parse(data, CSV, columns), parse(data, CSV, columns, block_bytes=block_bytes)
    assert (whole.counted, whole.malformed) == (cut.counted, cut.malformed)
    only_b = parse(data, CSV, [column("b", "string")])
    assert (len(whole.rows), whole.malformed) == (len(only_b.rows), only_b.malformed)


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("body", "values", "malformed"),
    [
        (b"", [], 0),
        (b"1\n1,2\n1,2,3,4,5\n", ["None", "'2'", "'2'"], 0),
        (b"1,2,3\n\n\r\n1,4,5", ["'2'", "'4'"], 0),
        (b'1,"x, y",3\n1,"say ""hi""",3\n', ["'x, y'", "'say \"hi\"'"], 0),
        (b'1,"two\nlines",3\n1,2,3\n', ["'two\\nlines'", "'2'"], 0),
        (b'1,5" disk,3\n1,2,3\n', ["'5\" disk'", "'2'"], 0),
        (b'1,"never closed,3\n1,2,3\n1,"ok",3\n', ["'2'", "'ok'"], 1),
        (b'1,"a"b,3\n1,2,3\n', ["'2'"], 1),
        (b'1,"",3\n1,,3\n', ["None", "None"], 0),
        (b"1,\xff,3\n1,\xc3\xa9,3\n", ["'\ufffd'", "'é'"], 0),
        (b"1,a\0b,3\n", ["'a\\x00b'"], 0),
    ],
)
def test_bad_records_are_counted_and_good_ones_kept(
    column: Any, parse: Any, body: bytes, values: list[str], malformed: int
) -> None:
    found = parse(HEADER + body, CSV, [column("b", "string")])
    assert sorted(value for (value,) in found.values()) == sorted(values)
    assert found.malformed == malformed


def test_a_block_that_the_reader_refuses_is_read_record_by_record(
    column: Any, parse: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise pl.exceptions.ComputeError("no")

    monkeypatch.setattr(pl, "read_csv", refuse)
    assert parse(HEADER + b"1,2\r\n3,\n", CSV, [column("b", "number")]).values() == [("2",), ("None",)]
    assert parse(b"a\tb\tc\r\n1\t2\r\n3", TSV, [column("b", "number")]).values() == [("2",), ("None",)]


def test_a_number_column_that_mixes_integers_and_doubles_keeps_both(column: Any, parse: Any) -> None:
    found = parse(HEADER + b"1,,\n2.0,,\n,,\nx,,\n99999999999999999999,,\n1e400,,\n", CSV, [column("a", "number")])
    assert sorted((values[0], coerced) for _, values, coerced in found.rows) == sorted(
        [("1", 0), ("2.0", 0), ("None", 0), ("None", 1), ("1e+20", 0), ("None", 1)]
    )


def test_other_types(column: Any, parse: Any) -> None:
    body = b"true,1,2026-01-02T03:04:05Z\n FALSE ,2.5,1\nyes,x,soon\n,,\n"
    found = parse(HEADER + body, CSV, [column("a", "boolean"), column("b", "integer"), column("c", "timestamp")])
    assert [(values[:2], values[2][:21], coerced) for _, values, coerced in found.rows] == [
        (("True", "1"), "datetime.datetime(202", 0),
        (("False", "None"), "datetime.datetime(197", 1),
        (("None", "None"), "None", 3),
        (("None", "None"), "None", 0),
    ]


def test_rows_without_a_usable_time_are_malformed(column: Any, parse: Any) -> None:
    data = b"time,a\n2026-01-02 03:04:05,1\nsoon,2\n,3\n1767323045000,4\n"
    found = parse(data, Format("csv", "time", ("time", "a")), [column("a", "number"), column("time", "string")])
    assert found.rows == [
        (1767323045000, ("1", "'2026-01-02 03:04:05'"), 0),
        (1767323045000, ("4", "'1767323045000'"), 0),
    ]
    assert found.malformed == 2


def test_columns_are_found_by_name(column: Any, parse: Any) -> None:
    form = Format("csv", None, ("a", "user.location", "a"))
    columns = [column("user.location", "string"), column("a", "string"), column("missing", "string")]
    assert parse(b"a,user.location,a\n1,x,2\n", form, columns).values() == [("'x'", "'1'", "None")]


def test_a_header_may_be_quoted_and_start_with_a_byte_order_mark(column: Any, parse: Any) -> None:
    assert parse(b'\xef\xbb\xbf"a","b","c"\r\n1,2,3\r\n', CSV, [column("a", "number")]).values() == [("1",)]
    assert parse(b'\n\n"a","b\nb","c"\n1,2,3\n', CSV, [column("a", "number")]).values() == [("1",)]


@pytest.mark.parametrize(
    ("file", "form", "events"),
    seeds(
        ("nasa/1995-07-01.tsv.gz", "tsv", 9_999),
        ("nasa/1995-08-01.tsv.gz", "tsv", 30_969),
        slow=[("retail/transactions.csv.gz", "csv", 541_909)],
    ),
)
def test_real_tables(column: Any, parse: Any, real_logs: Path, file: str, form: str, events: int) -> None:
    data = gzip.decompress((real_logs / file).read_bytes())
    rows = csv.reader(io.StringIO(data.decode()), delimiter="," if form == "csv" else "\t")
    header = next(rows)
    name, amount = ("InvoiceDate", "UnitPrice") if form == "csv" else ("time", "bytes")
    index = header.index(amount)
    texts = Counter(row[index] for row in rows)
    expected: Counter[tuple[str, int]] = Counter()
    for text, count in texts.items():
        expected[fit(text, "number")] += count
    found = parse(data, Format(form, name, tuple(header)), [column(amount, "number")], block_bytes=1 << 21)
    assert (len(found.rows), found.malformed) == (events, 0)
    assert Counter((values[0], coerced) for _, values, coerced in found.rows) == expected


@pytest.mark.parametrize("kind", ["csv", "tsv"])
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\0" * 300, b"\0" * 300 + b"\n", (b"\0" * 300 + b"\r\n") * 2])
def test_a_file_of_nothing_or_of_nuls_has_no_events(kind: str, content: bytes) -> None:
    form = sniff(content, "log", kind)
    block = Block(content, Origin("log", 0), 0)
    assert parser(form, ()).parse(block, 7) == Parsed((), 0)
    records = LINE_FORMATS[kind].records(form).read(block, 7)
    assert len(records.owners) == 0, "nor has its archive"
    assert records.is_nothing.all()


def test_a_hole_among_rows_is_malformed(column: Any, parse: Any) -> None:
    data = b"\0\0\0\n" + HEADER + b"1,2,3\n\0\0\0\n4,5,6\n" + b"\0" * 9
    found = parse(data, CSV, [column("c", "number")])
    assert [row[1] for row in found.rows] == [("3",), ("6",)]
    assert found.malformed == 2
    block = Block(data, Origin("log", 0), 0)
    records = LINE_FORMATS["csv"].records(CSV).read(block, 7)
    assert len(records.owners) == 2
    assert records.is_nothing.tolist() == [True, False, False, False, False]
