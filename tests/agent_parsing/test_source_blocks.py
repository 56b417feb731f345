"""Blocks: nothing lost, nothing torn, memory bounded, whatever the lines are like."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources import Block
from agent.sources.blocks import BlockCutter, cut_blocks


def cut(pieces: Iterable[bytes], **limits: int | bool) -> list[Block]:
    return list(cut_blocks(pieces, BlockCutter("log", **limits)))  # type: ignore[arg-type]


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def check_against(data: bytes, blocks: list[Block], line_bytes_max: int) -> None:
    """Every line short enough is there, in order, at its offset; the others are counted."""
    lines = data.splitlines(keepends=True) if b"\r" not in data else None
    assert lines is not None
    kept = [line for line in lines if len(line.rstrip(b"\n")) <= line_bytes_max]
    assert b"".join(block.data for block in blocks) == b"".join(kept)
    assert sum(block.overlong for block in blocks) == len(lines) - len(kept)
    for block in blocks:
        assert data[block.origin.offset :].startswith(block.data)
        assert block.data.endswith(b"\n") or block.origin.offset + len(block.data) == len(data)


lines = st.lists(st.binary(max_size=20).map(lambda line: line.translate(None, b"\r\n\v\f\x1c\x1d\x1e")), max_size=30)


@pytest.mark.fuzz
@given(lines, st.booleans(), st.integers(1, 40), st.integers(1, 60), st.integers(1, 25))
def test_every_line_is_in_one_block(
    parts: list[bytes], ends: bool, piece: int, block_bytes: int, line_max: int
) -> None:
    data = b"\n".join(parts) + (b"\n" if ends and parts else b"")
    blocks = cut(pieces_of(data, piece), block_bytes=block_bytes, line_bytes_max=line_max)
    check_against(data, blocks, line_max)
    assert all(block.data or block.overlong for block in blocks)


def test_blocks_are_about_as_large_as_asked() -> None:
    data = b"0123456789\n" * 10_000
    blocks = cut(pieces_of(data, 4096), block_bytes=8192)
    assert all(8000 < len(block.data) <= 8192 for block in blocks[:-1])


def test_an_overlong_line_leaves_its_neighbours_alone() -> None:
    data = b"before\n" + b"x" * 10_000_000 + b"\nafter\n" + b"y" * 2_000_000
    blocks = cut(pieces_of(data, 100_000))
    check_against(data, blocks, 1 << 20)
    assert [block.data for block in blocks if block.data] == [b"before\n", b"after\n"]
    assert sum(block.overlong for block in blocks) == 2


def test_memory_is_bounded_inside_an_overlong_line() -> None:
    cutter = BlockCutter("log", block_bytes=1000, line_bytes_max=500)
    for _ in range(1000):
        assert not list(cutter.feed(b"x" * 100))
        assert cutter.held_bytes <= 1600
    blocks = [*cutter.feed(b"\nshort"), *cutter.finish()]
    assert [(block.data, block.overlong, block.origin.offset) for block in blocks] == [(b"short", 1, 100_001)]


def test_of_a_damaged_stream_the_torn_line_is_dropped() -> None:
    def stream() -> Iterable[bytes]:
        yield b"one\ntwo\nthr"
        raise OSError("damaged")

    blocks: list[Block] = []
    with pytest.raises(OSError, match="damaged"):
        blocks.extend(cut_blocks(stream(), BlockCutter("log")))
    assert [block.data for block in cut([b"one\ntwo\nthr"])] == [b"one\ntwo\nthr"]


record = st.lists(
    st.one_of(
        st.sampled_from([b"", b"12", b'5" disk', b"word"]),
        st.text(alphabet='ab,"\n', max_size=8).map(lambda text: b'"' + text.replace('"', '""').encode() + b'"'),
    ),
    min_size=1,
    max_size=4,
).map(b",".join)


@given(st.lists(record, max_size=12), st.integers(1, 30), st.integers(1, 60))
def test_a_csv_block_ends_where_a_record_ends(records: list[bytes], piece: int, block_bytes: int) -> None:
    data = b"".join(record + b"\n" for record in records)
    ends = {0}
    for record in records:
        ends.add(max(ends) + len(record) + 1)
    blocks = cut(pieces_of(data, piece), block_bytes=block_bytes, csv_quotes=True)
    assert b"".join(block.data for block in blocks) == data
    assert {block.origin.offset for block in blocks} <= ends


def test_an_unterminated_quote_does_not_swallow_the_file() -> None:
    data = b'1,"never closed\n' + b"2,b\n" * 1000
    blocks = cut(pieces_of(data, 100), block_bytes=50, line_bytes_max=200, csv_quotes=True)
    assert b"".join(block.data for block in blocks) == data
    assert len(blocks) > 40
    assert max(len(block.data) for block in blocks) <= 350
