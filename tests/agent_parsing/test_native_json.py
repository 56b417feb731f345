"""The native scanner gives what the exact parser gives, event by event, whatever the lines hold."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_ways import mutated, rows_of

from agent.parsing.formats import Format, SourceColumn
from agent.parsing.json_lines import JsonParser
from agent.parsing.native import json_scanner, library, native_status
from agent.sources import Block
from agent.sources.blocks import Origin

ARRIVAL_MS = 1_700_000_000_000
USES = ("any", "number", "integer", "string", "boolean", "timestamp")
COLUMNS = [
    *(SourceColumn(f"a as {use}", ("a",), use) for use in USES),
    SourceColumn("nested", ("b", "c"), "any"),
    SourceColumn("nested too", ("b", "d"), "string"),
    SourceColumn("é", ("é",), "any"),
]
FORMS = [Format("json", None), Format("json", "t"), Format("json", "b.t")]
native = pytest.mark.skipif(json_scanner([("a",)]) is None, reason=f"lines are parsed {native_status()}")

keys = st.sampled_from(["a", "b", "c", "d", "t", "é", "x", "", 'a"', "A"])
texts = st.text(max_size=20) | st.sampled_from(
    ["", "x" * 12, "x" * 13, "ä" * 6, "\0", "2024-01-01T00:00:00Z", "\ud800"]
)
numbers = (
    st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=True)
    | st.sampled_from([0, -0.0, 1e22, 1e23, 0.1, 10**17, 10**18, 2**53 + 1, -(2**63)])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
objects = st.dictionaries(keys, values, max_size=6)
RAW = (
    "", " ", "\r", "\x0b", "{}", "[]", "{", '{"a":1}{"a":2}', ' {"a":1}', '{"a":1} ', '{"a":1}\r', '{"a":1,"a":2}',
    '{"a":1,}', '{"a":01}', '{"a":-}', '{"a":1.}', '{"a":.5}', '{"a":1e}', '{"a":1e400}', '{"a":-0}', '{"a":-0.0}',
    '{"a":1E+2}', '{"x":1e400}', '{"a":tru}', '{"a":nulls}', '{"a":"\\u0000"}', '{"a":"\\ud83d\\ude00"}',
    '{"a":"\\ud800"}', '{"a":"\\x"}', '{"\\u0061":1}', '{"b":{"c":1,"c":2}}', '{"b":[{"c":1}]}', '{"b":{"c":{}}}',
    '{"b":1e400}', '{"b":"\\u00e9\\/\\n"}', '{"a":"\t"}', '{"a":"' + "\\u00e9" * 9 + '"}',
    '{"x":' + "[" * 70 + "]" * 70 + "}", '{"x":' + '{"y":' * 63 + "1" + "}" * 64,
    '{"a" : "spaced" , "b" : { "c" : [ ] } }', "\ufeff" + '{"a":1}', "{'a':1}", '{"a":NaN}',
    '{"a":123456789012345678}', '{"a":1234567890123456789}', '{"a":0.1234567890123456789}',
    '{"a":9007199254740993.0}', '{"a":1e-22}', '{"a":1e-23}', "null",
)  # fmt: skip


def _both(data: bytes, form: Format, columns: list[SourceColumn] = COLUMNS) -> tuple[object, object]:
    parser, exact = JsonParser(form, columns), JsonParser(form, columns)
    assert parser._scanner is not None
    exact._scanner = None
    block = Block(data, Origin("web.log", 0), 0)
    return rows_of(parser.parse(block, ARRIVAL_MS)), rows_of(exact.parse(block, ARRIVAL_MS))


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line: an object, one of the odd ones, or either of them with some bytes changed."""
    plain = objects.map(lambda value: json.dumps(value, ensure_ascii=draw(st.booleans()), separators=(",", ":")))
    line = draw(plain | st.sampled_from(RAW)).encode("utf-8", "surrogatepass")
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 200), st.binary(max_size=2)), max_size=2)):
        line = line[:place] + byte + line[place + len(byte) :]
    return line.replace(b"\n", b"")


@native
@given(st.lists(lines(), max_size=8), st.sampled_from(FORMS), st.booleans())
def test_scanned_lines_are_what_the_exact_parser_says(block: list[bytes], form: Format, ends: bool) -> None:
    data = b"\n".join(block) + (b"\n" if ends else b"")
    scanned, exact = _both(data, form)
    assert scanned == exact


@native
@pytest.mark.parametrize("raw", RAW)
def test_odd_lines_cost_their_neighbours_nothing(raw: str) -> None:
    neighbour = b'{"a":1,"b":{"c":"of more than twelve bytes","d":"x"}}'
    data = b"\n".join([neighbour, raw.encode(), neighbour])
    for form in FORMS:
        scanned, exact = _both(data, form)
        assert scanned == exact


def _number(low: int, high: int, width: int) -> st.SearchStrategy[str]:
    return st.integers(low, high).map(lambda value: f"{value:0{width}}")


dates = st.builds("-".join, st.tuples(_number(0, 9999, 4), _number(0, 13, 2), _number(0, 32, 2))) | st.sampled_from(
    ["2000-02-29", "1900-02-29", "2024-02-30", "0001-01-01", "0000-12-31", "9999-12-31"]
)
clocks = st.builds(
    "".join,
    st.tuples(
        st.sampled_from("Tt x"), _number(0, 24, 2), st.just(":"), _number(0, 60, 2),
        st.just("") | _number(0, 61, 2).map(":{}".format),
        st.just("") | st.builds("{}{}".format, st.sampled_from(".,"), st.text("0123456789", max_size=10)),
        st.sampled_from(["", "Z", "z", "+00:00", "-2359", "+24:00", "-05", "+5", "+05:60", " ", "Zz"]),
    ),
)  # fmt: skip
time_texts = (
    st.builds("{}{}".format, dates, clocks | st.just(""))
    | st.sampled_from(["", "1700000000", "17/May/2015:10:05:03 +0000", "Wed Aug 27 13:08:45 +0000 2008", "\n", "é" * 5])
    | st.text(max_size=30)
)
epoch_numbers = st.integers(-(10**18), 10**18) | st.sampled_from(
    [sign * number + step for sign in (-1, 1) for number in (10**11, 62_135_596_800_000, 253_402_300_799_999)
     for step in (-1, 0, 1)]
)  # fmt: skip


@native
@given(st.lists(time_texts | epoch_numbers | st.floats() | st.none() | st.booleans(), min_size=1, max_size=20))
def test_scanned_times_are_what_the_exact_parser_says(times: list[object]) -> None:
    lines = [json.dumps({"t": time, "a": time, "n": n}, ensure_ascii=False) for n, time in enumerate(times)]
    columns = [SourceColumn("n", ("n",), "integer"), SourceColumn("as it is", ("a",), "any")]
    for name in ("a", "t"):
        columns.append(SourceColumn(f"{name} as time", (name,), "timestamp"))
        scanned, exact = _both("\n".join(lines).encode(), Format("json", "t"), columns)
        assert scanned == exact


def _mutants(seed: int, count: int) -> list[bytes]:
    """Real-looking lines with bytes flipped, dropped, doubled and spliced."""
    chance = random.Random(seed)
    base = [
        json.dumps(
            {
                "t": ARRIVAL_MS + n,
                "a": n,
                "b": {"c": f"c{n}", "d": "ü" * (n % 20)},
                "x": [1.5, {"y": None}],
                "é": -n / 8,
            }
        )
        for n in range(50)
    ]
    pieces = [b'"', b"\\", b"{", b"}", b",", b"\\u12", b"1e9", b"\xed\xa0\x80"]
    return [mutated(chance, json.dumps(chance.choice(base)), pieces) for _ in range(count)]


@native
@pytest.mark.parametrize("seed", range(3))
def test_mutated_lines_are_what_the_exact_parser_says(seed: int) -> None:
    data = b"\n".join(_mutants(seed, 2000))
    for form in FORMS:
        scanned, exact = _both(data, form)
        assert scanned == exact, f"seed {seed}"


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELF_NATIVE", "0")
    library.load.cache_clear()
    try:
        assert json_scanner([("a",)]) is None
        assert "in Python" in native_status()
    finally:
        library.load.cache_clear()
