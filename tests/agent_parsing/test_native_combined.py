"""The native scanner of combined logs gives what the exact parser gives, event by event, whatever the lines hold."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_ways import mutated, rows_of

from agent.parsing.combined import COLUMNS, CombinedParser
from agent.parsing.formats import Format, SourceColumn
from agent.parsing.native import combined_scanner, native_status
from agent.sources import Block
from agent.sources.blocks import Origin

WANTED = ([*COLUMNS], ["path", "body_bytes_sent"], ["status"], ["remote_addr", "http_user_agent"], ["nothing"], [])
native = pytest.mark.skipif(combined_scanner([]) is None, reason=f"lines are parsed {native_status()}")
HEAD = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "'
PLAIN = (
    HEAD + 'GET /apache_pb.gif?a=b HTTP/1.0" 200 2326 "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98)"'
)
RAW = (
    "", " ", "\r", "\0", PLAIN + "\r", PLAIN + "\r\r", PLAIN + ' "more" of it', "\0\0" + PLAIN, "\ufeff" + PLAIN,
    HEAD + 'GET / HTTP/1.1" 304 -', HEAD + 'GET / HTTP/1.1" 304 - ', HEAD + 'GET / HTTP/1.1" 304 0 "-" "-"',
    HEAD + 'GET / HTTP/1.1" 304 0 "-"', HEAD + 'GET / HTTP/1.1" 304 0 "-" "open', HEAD + 'GET / HTTP/1.1" 304 0 "" ""',
    HEAD + '-" 400 0 "-" "-"', HEAD + '" 400 0', HEAD + 'GET /" 400 1', HEAD + 'GET  / HTTP/1.1" 400 1',
    HEAD + 'GET / HTTP/1.1 " 400 1', HEAD + 'get-it_ /? HTTP/" 400 1', HEAD + 'GET ?a HTTP/1.1" 400 1',
    HEAD + 'GET / HTTP/1.1 x" 400 1', HEAD + 'GET /a b HTTP/1.1" 400 1', HEAD + 'G3T / HTTP/1.1" 400 1',
    HEAD + r'GET /\"a\" HTTP/1.1" 200 1', HEAD + r'GET /\x16\ HTTP/1.1" 200 1', HEAD + 'GET /\\" 200 1 "a" "b"',
    HEAD + 'GET /é?ü HTTP/1.1" 200 1 "é" "\t"', HEAD + 'GET /"a" HTTP/1.1" 200 1', HEAD + 'GET /" 200 1 "a\\" "b"',
    HEAD + 'GET / HTTP/1.1" 200 99999999999999999999', HEAD + 'GET / HTTP/1.1" 200 0099', HEAD + 'GET / H" 20 1',
    HEAD + 'GET / HTTP/1.1" 200 1 0.003 "a" "b"', HEAD + 'GET / HTTP/1.1" 200 1"', HEAD + 'GET / HTTP/1.1"',
    HEAD + 'GET / HTTP/1.1" 2000 1', HEAD + 'GET / HTTP/1.1" 200', HEAD + 'GET / HTTP/1.1" 200 1 "a"  "b"',
    '- - - [10/Oct/2000:13:55:36 -0700] "-" 200 -', '[::1] - [a [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1',
    ' - - [10/Oct/2000:13:55:36 -0700] "-" 200 -', 'h - a b [10/Oct/2000:13:55:36 -0700] "-" 200 -',
    'h  u [10/Oct/2000:13:55:36 -0700] "-" 200 -', 'h - [10/Oct/2000:13:55:36 -0700] "-" 200 -',
    'h - u [10/Oct/2000:13:55:36 -0700]  "-" 200 -', 'h - u [1/Oct/2000:13:55:36 -0700] "-" 200 -', "no line of a log",
    *(
        f'h - - [{stamp}] "-" 200 1'
        for stamp in (
            "29/Feb/2000:00:00:00 +0000", "29/Feb/1900:00:00:00 +0000", "29/Feb/2100:00:00:00 +0000",
            "29/feb/2024:23:59:60 +0000", "31/Apr/2024:00:00:00 +0000", "00/Jan/2024:00:00:00 +0000",
            "31/Dec/9999:23:59:59 -0100", "31/Dec/9999:23:59:59 +0100", "01/Jan/1970:00:00:00 +2359",
            "01/Jan/0001:00:00:00 +0000", "01/Jan/1969:23:59:59 +0000", "01/Xxx/2024:00:00:00 +0000",
            "01/Jan/2024:24:00:00 +0000", "01/Jan/2024:00:60:00 +0000", "01/Jan/2024:00:00:00 +2400",
            "01/Jan/2024:00:00:00 +0060", "01/Jan/2024:00:00:00  0000", "2024-01-01T00:00:00.00000Z",
        )
    ),
)  # fmt: skip


def _check(lines: Sequence[bytes], about: str = "") -> None:
    """Both parsers say the same of these lines, whichever fields are wanted."""
    block = Block(b"\n".join(lines), Origin("access.log", 0), 0)
    for names in WANTED:
        columns = [SourceColumn(name, (name,), "any") for name in names]
        parser, exact = (CombinedParser(Format("combined", "time"), columns) for _ in range(2))
        assert parser._scanner is not None
        exact._scanner = None
        assert rows_of(parser.parse(block, 0)) == rows_of(exact.parse(block, 0)), f"{names} of {block.data!r} {about}"


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A plain line or an odd one, with some bytes changed."""
    line = draw(st.just(PLAIN) | st.sampled_from(RAW)).encode()
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 160), st.binary(max_size=2)), max_size=3)):
        line = line[:place] + byte + line[place + len(byte) :]
    return line.replace(b"\n", b"")


@native
@given(st.lists(lines(), max_size=8))
def test_scanned_lines_are_what_the_exact_parser_says(block: list[bytes]) -> None:
    _check(block)


@native
@pytest.mark.parametrize("raw", RAW)
def test_odd_lines_cost_their_neighbours_nothing(raw: str) -> None:
    _check([PLAIN.encode(), raw.encode(), PLAIN.encode()])


@native
def test_every_day_and_hour_is_read_alike() -> None:
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    years = (1970, 1999, 2000, 2023, 2024, 2100, 2400)
    days = [f"{day:02}/{month}/{year}" for year in years for month in months for day in range(33)]
    zones = ["+0000", "-0700", "+0530", "+1400", "-2359"]
    stamps = [f"{day}:{n % 25:02}:{n % 61:02}:{n % 62:02} {zones[n % 5]}" for n, day in enumerate(days)]
    _check([f'h - - [{stamp}] "GET / HTTP/1.1" 200 1'.encode() for stamp in stamps])


def _mutants(seed: int, count: int) -> list[bytes]:
    """Real-looking lines with bytes flipped, dropped, doubled and spliced."""
    chance = random.Random(seed)
    pieces = [b'"', b"\\", b" ", b"[", b"]", b"-", b"?", b"\xc3\xa4", b"\xff", b"\0", b"\r", b' "a" "b"', b" HTTP/1.1"]
    return [mutated(chance, chance.choice([PLAIN, PLAIN, *RAW]), pieces) for _ in range(count)]


@native
@pytest.mark.parametrize("seed", range(3))
def test_mutated_lines_are_what_the_exact_parser_says(seed: int) -> None:
    _check(_mutants(seed, 2000), f"seed {seed}")
