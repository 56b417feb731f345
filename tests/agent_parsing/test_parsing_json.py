"""JSON lines: what json.loads reads line by line, in columns, and no good event lost among bad lines."""

import json
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.parsing import Format, parse_time, parse_times

TIMED = Format("json", "t")
UNTIMED = Format("json", None)
T = '"t":"2026-01-02T03:04:05Z"'
T_MS = 1767323045000


def number(value: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**63:
        return float(value)
    return value if type(value) in (int, float) else None


def anything(value: Any) -> Any:
    if type(value) in (list, dict):
        text = msgspec.json.encode(value, order="sorted").decode()
        assert json.loads(text) == value
        return text
    return number(value) if type(value) is int else value


MODEL = {
    "any": anything,
    "number": number,
    "integer": lambda value: value if type(value) is int and -(2**63) <= value < 2**63 else None,
    "string": lambda value: value if type(value) is str else None,
    "boolean": lambda value: value if type(value) is bool else None,
}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
values = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(st.sampled_from("xyz"), scalars, max_size=2))
events = st.fixed_dictionaries({}, optional={"a": values, "b": values, "o": values, "o.x": values})
junk = st.sampled_from(["", "  ", "\r", "{", "}", "[1]", "7", '"text"', "null", '{"a":1', '{"a":}', "\x00"])
entries = st.one_of(events.map(lambda event: json.dumps(event)), junk)


@given(st.lists(entries, max_size=12), st.sampled_from(["any", "number", "integer", "string", "boolean"]))
def test_columns_are_what_json_loads_reads(column: Any, parse: Any, lines: list[str], use: str) -> None:
    columns = [column("a", use), column("b", "any"), column("o.x", use), column("f", use, path=("o.x",))]
    expected, malformed = [], 0
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            malformed += bool(line.strip())
            continue
        if type(event) is not dict:
            malformed += 1
            continue
        nested = event.get("o")
        given_values = [
            event.get("a"),
            event.get("b"),
            nested.get("x") if type(nested) is dict else None,
            event.get("o.x"),
        ]
        fitted = [MODEL[c.type](value) for c, value in zip(columns, given_values, strict=True)]
        coerced = sum(old is not None and new is None for old, new in zip(given_values, fitted, strict=True))
        expected.append((7, tuple(map(repr, fitted)), coerced))
    found = parse("\n".join(lines).encode(), UNTIMED, columns)
    assert sorted(found.rows) == sorted(expected)
    assert found.malformed == malformed


@given(st.lists(entries, max_size=20), st.integers(1, 200))
def test_blocks_may_be_cut_anywhere(column: Any, parse: Any, lines: list[str], block_bytes: int) -> None:
    columns = [column("a"), column("b", "number"), column("o"), column("o.x")]
    data = "\n".join(lines).encode()
    whole, cut = parse(data, UNTIMED, columns), parse(data, UNTIMED, columns, block_bytes=block_bytes)
    assert (whole.counted, whole.malformed) == (cut.counted, cut.malformed)


times = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**15), 10**15),
    st.floats(-1e12, 1e12),
    st.sampled_from(["2026-01-02T03:04:05Z", "17/May/2015:10:05:03 +0000", "1420070400", "", "soon"]),
)


@given(st.lists(times, max_size=9))
def test_times_may_be_texts_and_numbers(parse: Any, given_times: list[Any]) -> None:
    found = parse("\n".join(json.dumps({"t": time}) for time in given_times).encode(), TIMED, [])
    expected = [
        parse_time(time) if type(time) is str else parse_times(pl.Series([time])).item() for time in given_times
    ]
    assert sorted(row[0] for row in found.rows) == sorted(time for time in expected if time is not None)
    assert found.malformed == expected.count(None)


def test_a_path_leads_through_objects_and_a_key_is_taken_as_it_stands(column: Any, parse: Any) -> None:
    data = b"""{"user":{"location":"a"}}
{"user.location":"b"}
{"user":"c"}
{"user":[1]}
{"user":{"location":{"z":1,"y":2}}}"""
    columns = [column("user.location"), column("flat", path=("user.location",))]
    assert parse(data, UNTIMED, columns).values() == [
        ("'a'", "None"),
        ("None", "'b'"),
        ("None", "None"),
        ("None", "None"),
        ("""'{"y":2,"z":1}'""", "None"),
    ]
    columns = [column("user"), column("user.location")]
    assert parse(data, UNTIMED, columns).values() == [
        ("""'{"location":"a"}'""", "'a'"),
        ("None", "None"),
        ("'c'", "None"),
        ("'[1]'", "None"),
        ("""'{"location":{"y":2,"z":1}}'""", """'{"y":2,"z":1}'"""),
    ]


@pytest.mark.parametrize("key", ['a"b', "a\\b", "a\nb", "", " ", "é", "f0", "__class__"])
def test_any_key_can_be_a_column(column: Any, parse: Any, key: str) -> None:
    data = json.dumps({key: 1, "in": {key: 2}}).encode()
    columns = [column("x", path=(key,)), column("y", path=("in", key))]
    assert parse(data, UNTIMED, columns).values() == [("1", "2")]


def test_a_mixed_column_splits_the_block_into_homogeneous_frames(column: Any, parse: Any) -> None:
    data = b'{"a":1}\n{"a":2.5}\n{"a":"3"}\n{"a":true}\n{"a":null}\n{}\n{"a":4}\n{"a":18446744073709551616}\n'
    found = parse(data, UNTIMED, [column("a")])
    assert sorted(value for (value,) in found.values()) == sorted(
        ["1", "2.5", "'3'", "True", "None", "None", "4", "1.8446744073709552e+19"]
    )
    assert all(coerced == 0 for _, _, coerced in found.rows)


def test_values_that_do_not_fit_are_null_and_counted(column: Any, parse: Any) -> None:
    data = b'{"n":"1","s":2,"b":"true"}\n{"n":true,"s":"x","b":false}\n{"n":1e400,"s":null}\n'
    found = parse(data, UNTIMED, [column("n", "number"), column("s", "string"), column("b", "boolean")])
    assert sorted(found.rows) == sorted(
        [
            (7, ("None", "None", "None"), 3),
            (7, ("None", "'x'", "False"), 1),
            (7, ("None", "None", "None"), 1),
        ]
    )


def test_a_timestamp_column_holds_times(column: Any, parse: Any) -> None:
    data = b'{"a":"2026-01-02T03:04:05Z"}\n{"a":1}\n{"a":"x"}\n{}\n'
    found = parse(data, UNTIMED, [column("a", "timestamp")])
    assert [(values[0][:30], coerced) for _, values, coerced in found.rows] == [
        ("datetime.datetime(2026, 1, 2, ", 0),
        ("datetime.datetime(1970, 1, 1, ", 0),
        ("None", 1),
        ("None", 0),
    ]


@pytest.mark.fuzz
@pytest.mark.parametrize(
    ("data", "values", "malformed"),
    [
        ('{"a":1}{"a":2}', ["1", "2"], 0),
        ('{"a":1} {"a":2}\r', ["1", "2"], 0),
        ('{"a":1},{"a":2}', [], 1),
        ('{"a":1} trailing', [], 1),
        ('{"a":\n1}', [], 2),
        ('{"a":1}{"a":2}\n{"a":\n3}', ["1", "2"], 2),
        ('{"a":1,"b":[1\n2]}', [], 2),
        ('{"a":1}\n\n  \n\r\n{"a":2}', ["1", "2"], 0),
        ('\x00\x00\x00{"a":1}', ["1"], 0),
        ("\x00\x00", [], 1),
        ('\ufeff{"a":1}', ["1"], 0),
        ('{"a":1,"a":2}', ["2"], 0),
        ('{"a":"\\ud800x"}', ["'\ufffdx'"], 0),
        ('{"a":"\\\\ud800 \\ud83d\\ude00"}\n{', ["'\\\\ud800 \U0001f600'"], 1),
        ('{"b":NaN}\n{"b":Infinity}', [], 2),
        ('{"a":[1e400]}\n{"b":1e400}', ["None", "None"], 0),
        ('{"a":1e400}\n{"a":2.5}', ["None", "2.5"], 0),
        ('{"a":1e400}\n{"a":-1e400}', ["None", "None"], 0),
        ('{"a":"tab\there"}', [], 1),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + '}\n{"a":1}', ["1"], 1),
        ('{"b":' + '{"a":' * 100_000 + "1" + "}" * 100_000 + '}\n{"a":1}', ["1"], 1),
        ('{"a":' + "9" * 400 + "}", ["None"], 0),
        ('{"a":' + "9" * 10_000 + '}\n{"a":1}', ["1"], 1),
    ],
)
def test_bad_lines_are_counted_and_good_events_kept(
    column: Any, parse: Any, data: str, values: list[str], malformed: int
) -> None:
    found = parse(data.encode(), UNTIMED, [column("a")])
    assert sorted(value for (value,) in found.values()) == sorted(values)
    assert found.malformed == malformed


def test_invalid_utf8_is_replaced_and_the_event_kept(column: Any, parse: Any) -> None:
    found = parse(b'{"a":"\xff\xfe"}\n{"b":"\xff","a":2}\n', UNTIMED, [column("a")])
    assert sorted(found.values()) == [("'\ufffd\ufffd'",), ("2",)]
    assert found.malformed == 0


def test_an_event_without_usable_time_is_malformed(column: Any, parse: Any) -> None:
    unusable = '{"a":2,"t":"soon"}\n{"a":3}\n{"a":4,"t":true}\n{"a":5,"t":[1]}'
    data = f'{{"a":1,{T}}}\n{unusable}\n{{"a":"6",{T}}}'
    found = parse(data.encode(), TIMED, [column("a", "number")])
    assert found.rows == [(T_MS, ("1",), 0), (T_MS, ("None",), 1)]
    assert found.malformed == 4


def test_a_time_field_with_dots_is_a_key_or_a_path(column: Any, parse: Any) -> None:
    data = b'{"event.time":1,"a":1}\n{"event":{"time":2},"a":2}\n{"event":3}\n'
    found = parse(data, Format("json", "event.time"), [column("a")])
    assert found.rows == [(1000, ("1",), 0), (2000, ("2",), 0)]
    assert found.malformed == 1


def test_without_needed_columns_events_are_counted(parse: Any) -> None:
    assert parse(b'{"a":1}\n{}\n', UNTIMED, []).rows == [(7, (), 0), (7, (), 0)]
    assert parse(b"", UNTIMED, []).rows == []
    assert parse(b"\n \n", UNTIMED, []) == parse(b"", UNTIMED, [])


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(column: Any, parse: Any, data: bytes) -> None:
    found = parse(data, UNTIMED, [column("a"), column("a.b", "number")])
    assert found.malformed <= len([line for line in data.split(b"\n") if line.strip()])


@pytest.mark.fuzz
@given(st.lists(st.one_of(entries.map(str.encode), st.binary(max_size=30)), max_size=10), st.integers(1, 60))
def test_hostile_lines_are_read_alike_in_any_block(
    column: Any, parse: Any, lines: list[bytes], block_bytes: int
) -> None:
    data = b"\n".join(lines)
    whole, cut = (
        parse(data, UNTIMED, [column("a")]),
        parse(data, UNTIMED, [column("a")], block_bytes=block_bytes),
    )
    assert (whole.counted, whole.malformed) == (cut.counted, cut.malformed)
