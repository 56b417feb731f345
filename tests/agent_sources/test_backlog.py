"""What files hold now: the same blocks as reading them one by one, whatever happens to them meanwhile."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from agent.parsing import Format, sniff
from agent.sources import Block, read_blocks
from agent.sources.file.backlog import BoundedReader
from agent.sources.reader import SourceBlock

POLLS_MAX = 10_000
LINES = b"".join(b'{"time": %d, "text": "some words"}\n' % number for number in range(1_767_225_600, 1_767_235_600))


def as_lines(head: bytes, file: str) -> Format:  # noqa: ARG001
    return Format("json", "time", ("time",))


@contextmanager
def backlog(pattern: Path, **options: Any) -> Iterator[BoundedReader[Format]]:
    reader: BoundedReader[Format] = BoundedReader([str(pattern)], options.pop("recognise", as_lines), **options)
    try:
        yield reader
    finally:
        reader.close()


def read_all(reader: BoundedReader[Format]) -> list[SourceBlock[Format]]:
    pieces = []
    for _ in range(POLLS_MAX):
        if reader.at_end:
            return pieces
        pieces += reader.poll(0.0)
    raise AssertionError("it never ends")


def content(pieces: list[SourceBlock[Format]]) -> bytes:
    return b"".join(piece.block.data for piece in pieces)


def test_it_yields_the_blocks_of_the_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    files = {
        "a.log": LINES,
        "b.log": b"",
        "c.log": LINES[:-1],
        "d.log.gz": gzip.compress(LINES),
        "e.log.zst": zstandard.ZstdCompressor().compress(LINES),
        "f.log": b'time,text\n1767225600,"two\nlines"\n' * 5000,
        "g.log": b'{"time": 1767225600}\n' + b"x" * 300_000 + b'\n{"time": 1767225600}\n',
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    limits = {"block_bytes": 50_000, "line_bytes_max": 100_000}
    expected: list[Block] = []
    for name in files:
        expected += read_blocks(str(tmp_path / name), csv_quotes=name.startswith("f"), **limits)  # type: ignore[arg-type]
    with backlog(tmp_path / "*.log*", recognise=sniff, **limits) as reader:
        pieces = read_all(reader)
    assert [piece.block for piece in pieces] == expected
    assert {piece.form.kind for piece in pieces} == {"json", "csv"}
    assert reader.statistics().bytes_read == sum((tmp_path / name).stat().st_size for name in files)
    assert not reader.faults()


def test_it_ends_where_files_ended_at_the_start(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(LINES)
    with backlog(tmp_path / "*.log", poll_bytes=1) as reader:
        pieces = reader.poll(0.0)
        with (tmp_path / "b.log").open("ab") as file:
            file.write(b"later\n")
        (tmp_path / "b.log").rename(tmp_path / "rotated")
        (tmp_path / "b.log").write_bytes(b"new\n")
        (tmp_path / "c.log").unlink()
        (tmp_path / "d.log").write_bytes(b"new\n")
        assert not reader.at_end
        pieces += read_all(reader)
    assert content(pieces) == LINES * 3


def test_polls_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(LINES * 10)
    (tmp_path / "bomb.log.gz").write_bytes(gzip.compress(bytes(1 << 26)))
    sizes, polls_without = [], 0
    with backlog(tmp_path / "*.log*", block_bytes=100_000, poll_bytes=500_000) as reader:
        for _ in range(POLLS_MAX):
            if reader.at_end:
                break
            pieces = reader.poll(0.0)
            sizes.append(len(content(pieces)))
            polls_without += not pieces
    assert sum(sizes) == len(LINES * 10)
    assert max(sizes) < 1_000_000
    assert polls_without > 50, "an overlong line does not keep it either"


def test_what_cannot_be_read_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    whole = gzip.compress(LINES)
    (tmp_path / "a.log").mkdir()
    (tmp_path / "b.log.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "c.log").write_bytes(b"nobody knows what this is\n" * 10)
    (tmp_path / "d.log.gz").write_bytes(LINES)
    (tmp_path / "e.log").write_bytes(LINES)
    with backlog(tmp_path / "*.log*", recognise=sniff) as reader:
        pieces = read_all(reader)
    first = content(pieces)[: -len(LINES)]
    assert LINES.startswith(first)
    assert content(pieces) == first + LINES
    faults = reader.faults()
    assert [fault.split(": ")[0].rpartition("/")[2] for fault in faults] == ["a.log", "b.log.gz", "c.log", "d.log.gz"]
    assert "the gzip data ends in the middle" in faults[1]
    statistics = reader.statistics()
    assert (statistics.unreadable, statistics.broken) == (3, 1)


def test_too_many_files_are_told(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.log").write_bytes(b"%d\n" % number)
    with backlog(tmp_path / "*.log", files_max=3) as reader:
        assert content(read_all(reader)) == b"0\n1\n2\n"
    assert reader.faults() == [f"{tmp_path}/*.log: matches 5 files: only the first 3 are read"]


@pytest.mark.parametrize("polls", [0, 1, 1000])
def test_closing_leaves_no_descriptor(tmp_path: Path, polls: int) -> None:
    for number in range(5):
        (tmp_path / f"{number}.log").write_bytes(LINES)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with backlog(tmp_path / "*.log", poll_bytes=1) as reader:
        for _ in range(polls):
            reader.poll(0.0)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert reader.at_end


def test_nothing_to_read_is_the_end(tmp_path: Path) -> None:
    with backlog(tmp_path / "*.log") as reader:
        assert reader.poll(0.0) == []
        assert reader.at_end
        assert reader.faults() == [f"{tmp_path}/*.log: matches no file"]
    os.mkfifo(tmp_path / "a.log")
    with backlog(tmp_path / "*.log") as reader:
        assert reader.poll(0.0) == []
    assert reader.faults() == [f"{tmp_path}/a.log: is a pipe, not a file"]
