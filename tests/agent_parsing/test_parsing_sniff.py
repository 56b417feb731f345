"""Telling formats and time fields."""

import gzip
import os
from pathlib import Path

import pytest

from agent.parsing import Format, parser, schema, sniff
from agent.sources import SourceError, SourceFile

LOG = b'1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "x"\n'
EVENT = b'{"timestamp":"2026-01-02T03:04:05Z","user":{"name":"a"}}\n'
TABLE = b"time,a,b\n2026-01-02 03:04:05,1,x\n2026-01-02 03:04:06,2,\n"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (EVENT, Format("json", "timestamp", ("timestamp", "user", "user.name"))),
        (EVENT.rstrip(), Format("json", "timestamp", ("timestamp", "user", "user.name"))),
        (b'{"a":1}\n', Format("json", None, ("a",))),
        (b'junk\n{"ts":1420070400}\n{"ts":', Format("json", "ts", ("ts",))),
        (
            b'{"timestamp":"soon","@timestamp":"x","created_at":1}\n',
            Format("json", "created_at", ("timestamp", "@timestamp", "created_at")),
        ),
        (b"\0\0\0" + EVENT, Format("json", "timestamp", ("timestamp", "user", "user.name"))),
        (TABLE, Format("csv", "time", ("time", "a", "b"))),
        (b"\xef\xbb\xbf" + TABLE.replace(b"\n", b"\r\n"), Format("csv", "time", ("time", "a", "b"))),
        (b"a,b\n", Format("csv", None, ("a", "b"))),
        (b'"first name","b, c"\n1,2\n', Format("csv", None, ("first name", "b, c"))),
        (TABLE.replace(b",", b"\t"), Format("tsv", "time", ("time", "a", "b"))),
        (b"", Format("json", None)),
        (b"\n \n", Format("json", None)),
    ],
)
def test_a_format_is_told_from_the_first_lines(head: bytes, expected: Format) -> None:
    assert sniff(head, "log") == expected


@pytest.mark.parametrize("head", [LOG, LOG.replace(b' "-" "x"', b""), b"torn\n" * 5 + LOG, LOG + EVENT + LOG])
def test_log_lines_are_told_among_others(head: bytes) -> None:
    form = sniff(head, "log", time_field="ignored: log lines have their own")
    assert (form.kind, form.time_field) == ("combined", "time")


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("head", "words"),
    [
        (os.urandom(4096), "is binary, not log text"),
        ("text as UTF-16\n".encode("utf-16") * 10, "is binary, not log text"),
        (b"\x7fELF\x02\x01\x01" + bytes(100) + b"\x3e\0\1\0", "is binary, not log text"),
        (b"[Mon May 18] [error] no such thing\n" * 9, "cannot tell the format"),
        (b"Jul  1 09:00:55 host kernel[0]: a, b\n" * 9, "cannot tell the format"),
        (b"2026-01-02 03:04:05,678 INFO started\n" * 9, "cannot tell the format"),
        (b"1,2,3\n4,5,6\n", "cannot tell the format"),
        (b"one word\n", "cannot tell the format"),
        (b"some, words\nand more\nand more\n", "cannot tell the format"),
    ],
)
def test_what_is_no_known_log_is_told_in_one_line(head: bytes, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        sniff(head, "some.log")
    assert str(caught.value).startswith(f"some.log: {words}")
    assert "\n" not in str(caught.value)


def test_a_format_can_be_asked_for() -> None:
    assert sniff(b"name\nanna\n", "log", "csv") == Format("csv", None, ("name",))
    assert sniff(b"junk\n", "log", "json") == Format("json", None, ())
    assert sniff(b"junk\n", "log", "combined").kind == "combined"
    assert sniff(b"", "log", "tsv") == Format("tsv", None)
    with pytest.raises(SourceError, match="log: is to be read as 'xml', which is none of auto, json"):
        sniff(EVENT, "log", "xml")
    with pytest.raises(SourceError, match="is binary"):
        sniff(bytes(range(256)), "log", "csv")


def test_a_time_field_can_be_asked_for() -> None:
    assert sniff(b'{"at":1,"ts":2}\n', "log", time_field="at").time_field == "at"
    assert sniff(b'{"in":{"at":1}}\n', "log", time_field="in.at").time_field == "in.at"
    with pytest.raises(SourceError, match="log: has no usable time in 'at' in its first lines"):
        sniff(EVENT, "log", time_field="at")
    with pytest.raises(SourceError, match="log: has no column 'at' for the time; its columns are time, a, b"):
        sniff(TABLE, "log", time_field="at")


def test_a_schema_has_the_columns_of_a_format() -> None:
    assert schema(sniff(EVENT, "log")) == ({"timestamp": "any", "user": "any", "user.name": "any"}, True)
    assert schema(sniff(TABLE, "log")) == ({"time": "text", "a": "text", "b": "text"}, False)
    columns, is_open = schema(sniff(LOG, "log"))
    assert not is_open
    assert columns["time"] == "timestamp"
    assert columns["status"] == columns["body_bytes_sent"] == "integer"
    assert list(columns) == [
        "remote_addr",
        "remote_user",
        "time",
        "request",
        "method",
        "path",
        "query_string",
        "protocol",
        "status",
        "body_bytes_sent",
        "http_referer",
        "http_user_agent",
    ]


def test_the_names_of_json_keys_are_bounded() -> None:
    head = b"{" + b",".join(b'"k%d":{"x":1}' % number for number in range(5000)) + b"}\n"
    assert len(sniff(head, "log").header or ()) == 1000


@pytest.mark.parametrize(
    ("file", "kind", "time_field", "events"),
    [
        ("apache/access.log.gz", "combined", "time", 10_000),
        ("nasa/1995-07-01.tsv.gz", "tsv", "time", 9_999),
        ("nasa/1995-08-01.tsv.gz", "tsv", "time", 30_969),
        ("retail/transactions.csv.gz", "csv", None, 541_909),
        ("github/events.json.gz", "json", "created_at", 7_702),
        ("wiki/edits.json.gz", "json", "time", 39_244),
        ("odd/nasa-broken-lines.log.gz", "combined", "time", 1_841),
    ],
)
def test_real_files_are_read_from_end_to_end(
    real_logs: Path, file: str, kind: str, time_field: str | None, events: int
) -> None:
    source = SourceFile(str(real_logs / file))
    form = sniff(source.head(), file)
    assert (form.kind, form.time_field) == (kind, time_field)
    reader = parser(form, [])
    parsed = [reader.parse(block, 0) for block in source.blocks(csv_quotes=kind == "csv")]
    assert sum(frame.height for result in parsed for frame in result.frames) == events
    assert source.progress.bytes_read == source.bytes_total()


@pytest.mark.parametrize("name", ["apache-error", "sshd-syslog", "mac-system", "kafka-state-change"])
def test_other_real_logs_are_refused(real_logs: Path, name: str) -> None:
    head = gzip.decompress((real_logs / f"odd/{name}.log.gz").read_bytes())[: 256 << 10]
    with pytest.raises(SourceError, match="cannot tell the format"):
        sniff(head, name)
