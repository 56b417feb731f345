"""Combined logs: equal to an independent reader by `re`, and no good line lost."""

import datetime as dt
import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.parsing import Format, schema

FORMAT = Format("combined", "time")
USES = schema(FORMAT)[0]

FIELD = r'"((?:[^"\\]|\\.)*)"'
LINE = re.compile(
    r"(?P<remote_addr>[^ ]+) [^ ]+ (?P<remote_user>.*?) \[(?P<time>[^][]*)\] "
    rf"{FIELD.replace('(', '(?P<request>', 1)} (?P<status>[0-9]{{3}}) (?P<body_bytes_sent>[0-9]+|-)"
    rf"(?: {FIELD.replace('(', '(?P<http_referer>', 1)} {FIELD.replace('(', '(?P<http_user_agent>', 1)})?"
)
REQUEST = re.compile(r"(?P<method>[A-Za-z_-]+) (?P<target>.+?)(?: (?P<protocol>HTTP/[^ ]*))?")


def reference(line: str, names: list[str]) -> tuple[int, tuple[str, ...], int] | None:
    """The event of a line without oddities, read one step at a time."""
    match = LINE.fullmatch(line)
    if match is None:
        return None
    values: dict[str, Any] = {name: None if text in ("-", "") else text for name, text in match.groupdict().items()}
    time = dt.datetime.strptime(values["time"], "%d/%b/%Y:%H:%M:%S %z").astimezone(dt.UTC)
    values["time"] = time
    for name in ("status", "body_bytes_sent"):
        values[name] = None if values[name] is None else int(values[name])
    request = REQUEST.fullmatch(values["request"] or "")
    target = request["target"] if request else None
    path, _, query = (target or "").partition("?")
    values["method"] = request["method"] if request else None
    values["protocol"] = request["protocol"] if request else None
    values["path"], values["query_string"] = path or None, query or None
    return round(time.timestamp() * 1000), tuple(repr_of(values[name]) for name in names), 0


def repr_of(value: Any) -> str:
    return value.isoformat() if isinstance(value, dt.datetime) else repr(value)


def comparable(row: tuple[int, tuple[str, ...], int]) -> tuple[int, tuple[str, ...], int]:
    zone = r"datetime\.datetime\((\d+), (\d+), (\d+), (\d+), (\d+)(?:, (\d+))?, .*"
    values = []
    for value in row[1]:
        match = re.fullmatch(zone, value)
        if match:
            value = dt.datetime(*(int(part or 0) for part in match.groups()), tzinfo=dt.UTC).isoformat()
        values.append(value)
    return row[0], tuple(values), row[2]


plain = st.text(alphabet="abcXYZ0/._-?=&%~é", min_size=1, max_size=12)
escaped = st.lists(st.sampled_from(["a", " ", r"\"", r"\\", r"\x22", "[", "]", "'", "é"]), max_size=8).map("".join)
moments = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2099, 1, 1)).map(
    lambda moment: moment.strftime("%d/%b/%Y:%H:%M:%S ")
)
requests = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["GET", "POST", "X-odd"]),
        plain,
        st.sampled_from(["HTTP/1.1", "HTTP/2.0"]),
    ),
    st.builds("GET {}".format, plain),
    st.builds("GET /{} HTTP/1.0".format, escaped),
    st.sampled_from(["-", "", r"\x16\x03\x01", "GET", r"\"", "GET /a b c HTTP/1.1", "GET / HTTP/1.1 x"]),
    escaped,
)
lines = st.builds(
    '{} {} {} [{}{}] "{}" {} {}{}'.format,
    st.sampled_from(["127.0.0.1", "2001:db8::1", "host.example", "-"]),
    st.sampled_from(["-", "ident"]),
    st.sampled_from(["-", "frank", "anna maria", "a [b", "a [b] c", "[x]"]),
    moments,
    st.sampled_from(["+0000", "-0700", "+0530"]),
    requests,
    st.sampled_from(["200", "404", "000", "499"]),
    st.sampled_from(["-", "0", "17", "123456789012"]),
    st.one_of(st.just(""), st.builds(' "{}" "{}"'.format, escaped, escaped)),
)
needed = st.lists(st.sampled_from(sorted(USES)), min_size=1, max_size=12, unique=True)


@given(st.lists(lines, max_size=6), needed)
def test_lines_are_what_an_independent_reader_reads(
    column: Any, parse: Any, logged: list[str], names: list[str]
) -> None:
    columns = [column(name, USES[name]) for name in names]
    expected = [reference(line, names) for line in logged]
    assert None not in expected
    found = parse("\n".join(logged).encode(), FORMAT, columns)
    assert sorted(map(comparable, found.rows)) == sorted(expected)  # type: ignore[type-var]
    assert found.malformed == 0


oddities = st.one_of(
    lines,
    lines.map(lambda line: line[: len(line) // 2]),
    lines.map(lambda line: line[len(line) // 2 :]),
    lines.map(lambda line: line[:-1]),
    lines.map(lambda line: line.replace("] ", "]")),
    st.text(alphabet='ab "[]\\-0123 ', max_size=30),
)


@pytest.mark.fuzz
@given(st.lists(oddities, max_size=8), needed, st.integers(1, 300), st.sampled_from(["\n", "\r\n"]))
def test_a_line_is_read_alike_in_any_block_for_any_columns(
    column: Any, parse: Any, logged: list[str], names: list[str], block_bytes: int, end: str
) -> None:
    data = end.join(logged).encode()
    columns = [column(name, USES[name]) for name in names]
    whole, cut = parse(data, FORMAT, columns), parse(data, FORMAT, columns, block_bytes=block_bytes)
    assert (whole.counted, whole.malformed) == (cut.counted, cut.malformed)
    status = names.index("status") if "status" in names else None
    alone = parse(data, FORMAT, [column("status", "integer")])
    assert (len(alone.rows), alone.malformed) == (len(whole.rows), whole.malformed)
    if status is not None:
        assert sorted(values[status] for values in whole.values()) == sorted(value for (value,) in alone.values())


START = "1.2.3.4 - - [17/May/2015:10:05:03 +0000] "


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            START + '"GET /a?b=c HTTP/1.1" 200 5 "-" "agent"',
            ("GET", "/a", "b=c", "HTTP/1.1", 200, 5, None, "agent"),
        ),
        (START + '"GET /a? HTTP/1.1" 200 -', ("GET", "/a", None, "HTTP/1.1", 200, None, None, None)),
        (START + '"GET /a b HTTP/1.1" 200 5', ("GET", "/a b", None, "HTTP/1.1", 200, 5, None, None)),
        (START + '"GET /a" 200 5', ("GET", "/a", None, None, 200, 5, None, None)),
        (START + '"-" 408 -', (None, None, None, None, 408, None, None, None)),
        (START + '"" 400 0', (None, None, None, None, 400, 0, None, None)),
        (START + r'"\x16\x03" 400 5 "-" "-"', (None, None, None, None, 400, 5, None, None)),
        (
            START + r'"GET /\" 200 7 \" HTTP/1.1" 404 5',
            ("GET", r"/\" 200 7 \"", None, "HTTP/1.1", 404, 5, None, None),
        ),
        (START + '"GET /"x" HTTP/1.1" 404 5', ("GET", '/"x"', None, "HTTP/1.1", 404, 5, None, None)),
        (
            START + '"GET / HTTP/1.1" 200 5 "-" "cut off',
            ("GET", "/", None, "HTTP/1.1", 200, 5, None, "cut off"),
        ),
        (START + '"GET / HTTP/1.1" 200 5 "cut off', ("GET", "/", None, "HTTP/1.1", 200, 5, None, None)),
        (
            START + '"GET / HTTP/1.1" 200 5 "r" "a" "10.0.0.1" 0.02',
            ("GET", "/", None, "HTTP/1.1", 200, 5, "r", "a"),
        ),
        (START + '"GET / HTTP/1.1" 200 5 0.3', ("GET", "/", None, "HTTP/1.1", 200, 5, None, None)),
        ("\0\0" + START + '"GET / HTTP/1.1" 200 5', ("GET", "/", None, "HTTP/1.1", 200, 5, None, None)),
    ],
)
def test_odd_lines_keep_what_can_be_read(column: Any, parse: Any, line: str, expected: tuple[Any, ...]) -> None:
    names = [
        "method",
        "path",
        "query_string",
        "protocol",
        "status",
        "body_bytes_sent",
        "http_referer",
        "http_user_agent",
    ]
    found = parse(line.encode(), FORMAT, [column(name, USES[name]) for name in names])
    assert found.rows == [(1431857103000, tuple(map(repr, expected)), 0)]
    assert parse(line.encode(), FORMAT, [column("remote_addr")]).values() == [("'1.2.3.4'",)]


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "line",
    [
        "hello",
        '"',
        START,
        START + '"GET / HTTP/1.0',
        START + '"GET / HTTP/1.0" 20 5',
        START + '"GET / HTTP/1.0" 200',
        START + '"GET / HTTP/1.0" 200 x',
        START + '"GET / HTTP/1.0" 200 5"-" "-"',
        START[8:] + '"GET / HTTP/1.0" 200 5',
        START.replace("May", "Mai") + '"GET / HTTP/1.0" 200 5',
        START.replace("17", "32") + '"GET / HTTP/1.0" 200 5',
        " " + START + '"GET / HTTP/1.0" 200 5',
    ],
)
def test_a_line_that_fits_nothing_is_malformed(column: Any, parse: Any, line: str) -> None:
    good = START + '"GET / HTTP/1.0" 200 5'
    found = parse(f"{good}\n{line}\n{good}\n".encode(), FORMAT, [column("path"), column("http_referer")])
    assert (len(found.rows), found.malformed) == (2, 1)


def test_blank_lines_and_invalid_utf8(column: Any, parse: Any) -> None:
    good = START.encode() + b'"GET /\xff HTTP/1.0" 200 5'
    found = parse(b"\n" + good + b"\r\n\r\n  \n" + good, FORMAT, [column("path")])
    assert found.values() == [("'/\ufffd'",)] * 2
    assert found.malformed == 0
    assert parse(b"", FORMAT, []).rows == []


def test_a_number_too_large_is_null_and_counted(column: Any, parse: Any) -> None:
    line = START + '"GET / HTTP/1.0" 200 ' + "9" * 30
    assert parse(line.encode(), FORMAT, [column("body_bytes_sent", "integer")]).rows == [(1431857103000, ("None",), 1)]


def test_a_column_that_log_lines_do_not_have_is_null(column: Any, parse: Any) -> None:
    line = START + '"GET / HTTP/1.0" 200 5'
    assert parse(line.encode(), FORMAT, [column("user.location")]).values() == [("None",)]


@pytest.mark.parametrize(
    ("file", "events", "malformed"),
    [("apache/access.log.gz", 10_000, 0), ("odd/nasa-broken-lines.log.gz", 1841, 89)],
)
def test_real_logs(column: Any, parse: Any, real_logs: Path, file: str, events: int, malformed: int) -> None:
    data = gzip.decompress((real_logs / file).read_bytes())
    names = sorted(USES)
    found = parse(data, FORMAT, [column(name, USES[name]) for name in names], block_bytes=1 << 20)
    assert (len(found.rows), found.malformed) == (events, malformed)
    expected = [reference(line, names) for line in data.decode().splitlines()]
    known = [row for row in expected if row is not None]
    assert len(known) >= events - 1  # one line of the first lacks its last quote
    missing = set(known) - set(map(comparable, found.rows))
    assert not missing
