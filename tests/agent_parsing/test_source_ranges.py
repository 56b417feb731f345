"""Parts of plain files, read on their own, are the blocks that reading in order gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources import Block, SourceError, SourceFile

LINE_BYTES_MAX = 40


def _content(blocks: list[Block]) -> tuple[bytes, int]:
    return b"".join(block.data for block in blocks), sum(block.overlong for block in blocks)


def _lines(blocks: list[Block]) -> list[bytes]:
    return [line for block in blocks for line in block.data.splitlines(keepends=True)]


@given(
    st.lists(st.integers(0, 100).map(lambda length: b"x" * length) | st.just(b"\r"), max_size=30),
    st.booleans(),
    st.sampled_from([41, 64, 100, 1000]),
    st.integers(0, 2**32),
)
def test_readings_are_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends: bool, block_bytes: int, seed: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "web.log"
    path.write_bytes(b"\n".join(lines) + (b"\n" if ends else b""))
    in_order = list(SourceFile(str(path)).blocks(block_bytes=block_bytes, line_bytes_max=LINE_BYTES_MAX))
    source = SourceFile(str(path))
    readings = list(source.readings(block_bytes=block_bytes, line_bytes_max=LINE_BYTES_MAX))
    order = random.Random(seed).sample(range(len(readings)), len(readings))
    read = {number: readings[number]() for number in order}
    blocks = [block for number in range(len(readings)) for block in read[number]]
    assert _content(blocks) == _content(in_order)
    offset = 0
    for block in blocks:
        assert path.read_bytes()[block.origin.offset :].startswith(block.data)
        assert block.origin.offset >= offset
        assert len(block.data) <= max(block_bytes, LINE_BYTES_MAX) + 1
        offset = block.origin.offset + len(block.data)
    assert all(len(line.rstrip(b"\n")) <= LINE_BYTES_MAX for line in _lines(blocks))
    assert source.progress.bytes_read <= path.stat().st_size


def test_a_file_that_has_lost_its_name_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    path.write_bytes(b"a line\n" * 100)
    readings = SourceFile(str(path)).readings(block_bytes=64)
    first = next(readings)
    path.unlink()
    assert _content([*first(), *(block for reading in readings for block in reading())]) == (b"a line\n" * 100, 0)


def test_what_cannot_be_read_is_told_when_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        next(SourceFile(str(tmp_path / "none.log")).readings())
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    with pytest.raises(SourceError, match="holds no gzip data"):
        next(SourceFile(str(tmp_path / "bad.gz")).readings())
