"""Reading on where another reading ended, whatever has become of the files meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from appending import append

from agent.sources.file.followed_file import ReadUpTo

Follow = Callable[..., Any]


def read_so_far(follow: Follow, log: Path, data: bytes) -> list[ReadUpTo]:
    """How far a reading goes that is over."""
    append(log, data)
    follower = follow(log, read_from="beginning")
    follower.poll_until_end()
    return [file.read_up_to for file in follower.tail.files]


def test_reading_goes_on_where_it_ended(follow: Follow, log: Path) -> None:
    known = read_so_far(follow, log, b"one\ntw")
    append(log, b"o\nthree\n")
    follower = follow(log, known=known)
    assert follower.poll() == b"two\nthree\n"
    assert [piece.block.origin.offset for piece in follower.pieces] == [4]
    assert follower.tail.missed == []


def test_files_that_were_not_known_are_read_from_where_they_should(follow: Follow, log: Path, tmp_path: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(tmp_path / "other.log", b"first\n")
    follower = follow(tmp_path / "*.log", known=known, read_from="beginning")
    assert follower.poll() == b"first\n"


def test_a_renamed_file_is_read_to_its_end(follow: Follow, log: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    append(log, b"two\n")
    log.rename(log.with_name("rotated"))
    append(log, b"new\n")
    follower = follow(log, known=known, read_from="beginning")
    assert sorted(follower.poll(2).splitlines()) == [b"new", b"two"]


@pytest.mark.parametrize("content", [b"ONE\ntwo\nthree\n", b"on", b""])
def test_a_file_that_is_another_by_now_is_read_from_its_beginning(follow: Follow, log: Path, content: bytes) -> None:
    known = read_so_far(follow, log, b"one\n")
    log.write_bytes(content)
    follower = follow(log, known=known)
    assert follower.poll() == (content if content.endswith(b"\n") else b"")
    append(log, b"more\n")
    assert follower.poll().endswith(b"more\n")
    (fault,) = follower.faults
    assert f"is not what was read as {log}" in fault


def test_a_file_that_is_gone_is_told_and_known_when_it_comes_back(follow: Follow, log: Path, tmp_path: Path) -> None:
    known = read_so_far(follow, log, b"one\n")
    away = tmp_path / "away"
    away.mkdir()
    log.rename(away / "access.log")
    follower = follow(log, known=known)
    assert follower.poll() == b""
    assert "is gone: what it may have held from byte 4 on is not read unless it comes back" in follower.faults[0]
    assert follower.tail.missed == known
    append(away / "access.log", b"two\n")
    (away / "access.log").rename(log)
    assert follower.poll(2, later=1.1) == b"two\n"
    assert follower.tail.missed == []


def test_the_rest_of_an_overlong_line_is_no_line(follow: Follow, log: Path) -> None:
    append(log, b"one\n" + b"x" * 100)
    first = follow(log, read_from="beginning", line_bytes_max=50, block_bytes=50)
    first.poll(9)
    known = [file.read_up_to for file in first.tail.files]
    append(log, b"xx\ntwo\n")
    follower = follow(log, known=known, line_bytes_max=50, block_bytes=50)
    assert first.content + follower.poll(9) == b"one\ntwo\n"


def test_deleted_files_are_let_go_and_what_they_held_is_counted(follow: Follow, log: Path, tmp_path: Path) -> None:
    append(log, b"one\n")
    append(tmp_path / "kept.log", b"kept\n")
    follower = follow(tmp_path / "*.log", read_from="beginning")
    follower.poll()
    append(log, b"two\nthree\n")
    log.unlink()
    follower.tail.look(5.0)
    assert follower.tail.drop_deleted() == (2, 10)
    assert follower.tail.drop_deleted() == (0, 0)
    assert [file.path for file in follower.tail.files] == [str(tmp_path / "kept.log")]
