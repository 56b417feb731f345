"""Formats of growing files: told as soon as their lines show them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appending import append

from agent.parsing import Format, sniff
from agent.sources.file.followed_file import OPEN_RECORD_S, UNKNOWN_S

Follow = Callable[..., Any]


def test_a_format_shows_while_the_file_grows(follow: Follow, log: Path) -> None:
    log.touch()
    follower = follow(log, recognise=sniff)
    follower.poll()
    append(log, b"listening on port 80\n")
    assert follower.poll() == b""
    append(log, b'{"time": "2026-01-01T00:00:00Z"}\n')
    assert follower.poll() == b'listening on port 80\n{"time": "2026-01-01T00:00:00Z"}\n'
    (piece,) = follower.pieces
    assert (piece.form.kind, piece.form.time_field) == ("json", "time")
    assert not follower.faults


def test_a_file_that_fits_no_format_is_told_and_leaves_the_others_alone(follow: Follow, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.log", tmp_path / "good.log"
    append(bad, b"nothing anyone could read\n" * 2)
    append(good, b'{"a": 1}\n')
    follower = follow(tmp_path / "*.log", recognise=sniff, read_from="beginning")
    follower.poll()
    assert not follower.faults, "it may have just been begun"
    follower.poll(3, later=UNKNOWN_S)
    (fault,) = follower.faults
    assert fault.startswith(f"{bad}: cannot tell the format")
    assert follower.content == b'{"a": 1}\n'
    assert follower.tail.at_end
    assert follower.tail.statistics().unreadable == 1
    append(bad, b"nothing anyone could read\n" * 50_000)
    append(bad, b'{"a": 1}\n' * 100_000)
    follower.poll(3, later=UNKNOWN_S)
    assert follower.content == b'{"a": 1}\n', "its beginning has decided"
    os.truncate(bad, 0)
    follower.poll()
    append(bad, b'{"a": 2}\n')
    assert follower.poll() == b'{"a": 2}\n'


def test_a_time_field_may_show_later(follow: Follow, log: Path) -> None:
    append(log, b'{"a": 1}\n')
    follower = follow(log, recognise=sniff, read_from="beginning")
    follower.poll()
    append(log, b'{"a": 1, "ts": 1767323045}\n')
    follower.poll()
    assert [piece.form.time_field for piece in follower.pieces] == [None, "ts"]


def test_the_header_is_known_when_reading_starts_at_the_end(follow: Follow, log: Path) -> None:
    append(log, b"time,product,price\n2026-01-01T00:00:00Z,hat,1\n")
    follower = follow(log, recognise=sniff)
    follower.poll()
    append(log, b"2026-01-01T00:00:01Z,sock,2\n")
    assert follower.poll() == b"2026-01-01T00:00:01Z,sock,2\n"
    assert follower.pieces[0].form == Format("csv", "time", ("time", "product", "price"))
    assert follower.pieces[0].block.origin.offset > 0, "the parser takes what comes at 0 for the header"


def test_a_header_waits_for_its_first_row(follow: Follow, log: Path) -> None:
    log.touch()
    follower = follow(log, recognise=sniff)
    follower.poll()
    append(log, b"\nproduct,at,time\n")
    assert follower.poll() == b""
    append(log, b"hat,x,2026-01-01T00:00:00Z\n")
    assert follower.poll() == b"\nproduct,at,time\nhat,x,2026-01-01T00:00:00Z\n"
    assert [(piece.form.time_field, piece.block.origin.offset) for piece in follower.pieces] == [("time", 0)]


def test_lines_behind_an_open_quote_wait_for_it_but_not_for_ever(follow: Follow, log: Path) -> None:
    append(log, b"time,text\n2026-01-01T00:00:00Z,a\n")
    follower = follow(log, recognise=sniff)
    follower.poll()
    append(log, b'2026-01-01T00:00:00Z,"two\n')
    assert follower.poll() == b""
    append(log, b'lines"\n2026-01-01T00:00:00Z,b\n')
    assert follower.poll() == b'2026-01-01T00:00:00Z,"two\nlines"\n2026-01-01T00:00:00Z,b\n'
    stray = b'2026-01-01T00:00:00Z,"never closed\n2026-01-01T00:00:00Z,c\n'
    append(log, stray)
    assert follower.poll() == b""
    assert follower.poll(later=OPEN_RECORD_S) == stray
