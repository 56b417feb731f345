"""A snapshot is the tree's content; whatever else is given to `restore` is refused and changes nothing."""

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import astuple

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import cbt.tree.snapshots
from cbt import Aggregate, CompressedBufferTree, Key, SnapshotError, encode_frame

KEYS = [Key("k", "integer"), Key("s", "string")]
AGGREGATES = [Aggregate("n", "count", None, "any"), Aggregate("top", "max", "x", "number")]


def planted(keys: list[Key] = KEYS, aggregates: list[Aggregate] = AGGREGATES, **limits: int) -> CompressedBufferTree:
    return CompressedBufferTree(keys, aggregates, **limits)


def filled(count: int = 50) -> CompressedBufferTree:
    tree = planted(buffer_rows=16, fanout=3, leaf_rows=4)
    numbers = range(count)
    tree.insert(
        pl.DataFrame(
            {
                "pane": [-(n % 3) for n in numbers],
                "k": [None if n == 7 else n for n in numbers],
                "s": ["", None, "a-string-of-more-than-twelve-bytes"] * (count // 3) + [""] * (count % 3),
                "x": [n / 4 for n in numbers],
            }
        )
    )
    return tree


def rows(tree: CompressedBufferTree) -> list[tuple[object, ...]]:
    return [row for frame in tree.flush() for row in frame.rows()]


def sealed(content: bytes) -> bytes:
    """With the checksum that belongs to it."""
    return content + hashlib.blake2b(content, digest_size=32).digest()


def block(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def texts(tree: CompressedBufferTree) -> bytes:
    layout = tree.layout
    keys, aggregates = ([astuple(column) for column in columns] for columns in (layout.keys, layout.aggregates))
    return b"".join(block(json.dumps(part).encode()) for part in (keys, aggregates, layout.seed))


def snapshot_of(*frames: bytes, count: int | None = None, said_rows: int = 0, after: bytes = b"") -> bytes:
    """Made by hand: a well-formed snapshot of `filled()`'s layout with any frames."""
    head = b"ELF-CBT\0" + struct.pack("<H", 1) + texts(planted())
    numbers = struct.pack("<QI", said_rows, len(frames) if count is None else count)
    return sealed(head + numbers + b"".join(map(block, frames)) + after)


def flushed(tree: CompressedBufferTree) -> pl.DataFrame:
    return pl.concat(tree.flush())


def refused(data: bytes, match: str, into: CompressedBufferTree | None = None) -> None:
    tree = into or filled(10)
    before = rows(tree)
    with pytest.raises(SnapshotError, match=match):
        tree.restore(data)
    tree.check()
    assert rows(tree) == before


@pytest.mark.parametrize("limits", [{}, {"buffer_rows": 1, "fanout": 2, "leaf_rows": 2}])
def test_a_tree_with_other_limits_takes_a_snapshot(limits: dict[str, int]) -> None:
    tree = filled()
    other = planted(**limits)
    other.insert(pl.DataFrame({"pane": [9], "k": [9], "s": ["gone"], "x": [9]}))
    other.restore(tree.snapshot())
    other.check()
    assert rows(other) == rows(tree)
    for each in (tree, other):
        each.insert(pl.DataFrame({"pane": [0, 5], "k": [None, 5], "s": ["", "new"], "x": [1000, 5]}))
    assert rows(other) == rows(tree)


def test_an_empty_tree_and_one_without_keys() -> None:
    tree = filled()
    tree.restore(planted().snapshot())
    assert (rows(tree), tree.memory_bytes) == ([], 0)
    total = planted([], [Aggregate("total", "sum", "x", "integer")])
    total.insert(pl.DataFrame({"pane": [0, 1, 1], "x": [2**63 - 1] * 3}))
    other = planted([], [Aggregate("total", "sum", "x", "integer")])
    other.restore(total.snapshot())
    assert rows(other) == rows(total) != []


def test_a_restored_tree_ends_its_flushes() -> None:
    tree = filled()
    flush = tree.flush()
    tree.restore(tree.snapshot())
    with pytest.raises(RuntimeError, match="changed"):
        next(flush)


@pytest.mark.parametrize(
    ("tree", "match"),
    [
        (planted([Key("k", "integer"), Key("s", "any")]), 'keys .*"s", "string".*tree has .*"s", "any"'),
        (planted(aggregates=AGGREGATES[:1]), 'aggregates .*"top".*tree has'),
        (planted(seed=7), "seed 0, but the tree has 7"),
    ],
)
def test_another_layout_is_refused_by_its_difference(tree: CompressedBufferTree, match: str) -> None:
    refused(filled().snapshot(), match, into=tree)


def test_another_version_is_refused_by_its_number() -> None:
    content = filled().snapshot()[:-32]
    refused(sealed(content[:8] + struct.pack("<H", 2) + content[10:]), "version 2; this program reads version 1")


@pytest.mark.parametrize("length", [0, 7, 8, 9, 10, 41, 42, 100, -33, -32, -1])
def test_a_cut_snapshot_is_refused(length: int) -> None:
    data = filled().snapshot()
    refused(data[: length % len(data)], "no snapshot|too early|damaged")


def test_a_flipped_bit_is_refused() -> None:
    data = filled().snapshot()
    for position in range(len(data)):
        flipped = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(SnapshotError):
            planted().restore(flipped)


NONSENSE: dict[str, Callable[[pl.DataFrame], bytes]] = {
    "not in order": lambda frame: snapshot_of(encode_frame(frame.reverse()), said_rows=50),
    "hash that is not its key's": lambda frame: snapshot_of(
        encode_frame(frame.with_columns(pl.col("hash") ^ 1)), said_rows=50
    ),
    "hash that is not its key's ": lambda frame: snapshot_of(
        encode_frame(frame.with_columns(k=pl.lit(7, pl.Int64()))), said_rows=50
    ),
    "without pane or hash": lambda frame: snapshot_of(
        encode_frame(frame.with_columns(pl.lit(None, pl.Int64()).alias("pane"))), said_rows=50
    ),
    "columns": lambda frame: snapshot_of(encode_frame(frame.drop("n.n")), said_rows=50),
    "as many rows": lambda frame: snapshot_of(encode_frame(frame), said_rows=51),
    "is empty": lambda frame: snapshot_of(encode_frame(frame.clear())),
    "frame 0 .* damaged": lambda _: snapshot_of(b""),
    "frame 1 .* damaged": lambda frame: snapshot_of(encode_frame(frame), b"nonsense", said_rows=50),
    "too early": lambda frame: snapshot_of(encode_frame(frame), count=2**32 - 1, said_rows=50),
    "ends too early": lambda _: snapshot_of(count=1, after=struct.pack("<I", 2**32 - 1) + b"\0" * 40),
    "rows of frame 1 .* not in order": lambda frame: snapshot_of(*[encode_frame(frame)] * 2, said_rows=100),
    "as many rows as": lambda frame: snapshot_of(encode_frame(frame), said_rows=50, after=b"more"),
}


@pytest.mark.parametrize("match", NONSENSE)
def test_nonsense_with_a_valid_checksum_is_refused(match: str) -> None:
    refused(NONSENSE[match](flushed(filled())), match.strip())


def test_what_the_handmade_ones_are_made_from_is_a_snapshot() -> None:
    tree = planted()
    tree.restore(snapshot_of(encode_frame(flushed(filled())), said_rows=50))
    assert rows(tree) == rows(filled())


def test_a_frame_that_claims_too_much_is_refused_before_it_is_unpacked() -> None:
    honest = zstandard.ZstdCompressor().compress(bytes(2**27 - 1))
    claim = struct.pack("<I", 2**27 - 1)
    assert honest.count(claim) == 1
    refused(snapshot_of(honest.replace(claim, struct.pack("<I", 2**32 - 1))), "claims 4294967295 bytes; the limit is")


def test_large_content_is_cut_into_frames_and_a_row_that_fits_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cbt.tree.snapshots, "_FRAME_BYTES", 2**10)
    monkeypatch.setattr(cbt.tree.snapshots, "_FRAME_BYTES_MAX", 2**13)
    tree = planted()
    tree.insert(pl.DataFrame({"pane": [0] * 500, "k": range(500), "s": ["x" * 50] * 500, "x": [1] * 500}))
    other = planted()
    other.restore(tree.snapshot())
    assert rows(other) == rows(tree)
    tree.insert(pl.DataFrame({"pane": [0], "k": [1], "s": ["x" * 2**13], "x": [1]}))
    with pytest.raises(SnapshotError, match="too large"):
        tree.snapshot()


CONTENT = filled().snapshot()[:-32]
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(CONTENT) - 1),
        st.binary(min_size=1, max_size=4) | st.sampled_from([b"\xff" * 4, b"\xff" * 8, b"\0\0\0\x7f"]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.fuzz
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(data: bytes, starts_well: bool) -> None:
    start = CONTENT[: len(data)] if starts_well else b""
    with pytest.raises(SnapshotError):
        planted().restore(sealed(start + data))
    with pytest.raises(SnapshotError):
        planted().restore(start + data)


@pytest.mark.fuzz
@settings(max_examples=settings.default.max_examples * 2)
@given(EDITS, st.integers(0, 60))
def test_an_edited_and_sealed_snapshot_is_refused_or_is_one(edits: list[tuple[int, bytes]], cut: int) -> None:
    content = bytearray(CONTENT)
    for position, replacement in edits:
        content[position : position + len(replacement)] = replacement
    tree = planted()
    try:
        tree.restore(sealed(bytes(content[: len(content) - cut // 10])))
    except SnapshotError:
        assert rows(tree) == []
        return
    tree.check()
    assert len(rows(tree)) == 50
