"""Snapshots: a tree's content as bytes that describe their layout and are not trusted when read.

`ELF-CBT\\0`, the version (2 bytes), three texts that describe the layout (keys, aggregates, seed), the number of rows
(8 bytes), the number of frames (4 bytes), the frames, and a BLAKE2b hash (32 bytes) of all before it. A text or a frame
is its length (4 bytes) and its bytes; numbers are little-endian. Frames are as `encode_frame` writes them, in the order
of (pane, hash).
"""

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from itertools import chain

import polars as pl

from cbt.codec.frames import FrameError, decode_frame, encode_frame
from cbt.layout.layout import Layout
from cbt.tree.fragment import LOWEST, Bound

_MAGIC = b"ELF-CBT\0"
_VERSION = 1
_DIGEST_BYTES = 32
_FRAME_ROWS, _FRAME_BYTES = 2**16, 2**24
_FRAME_BYTES_MAX = 2**27  # of one row; a frame that claims more is refused
_SHOWN = 200


class SnapshotError(Exception):
    """Bytes that should hold a snapshot hold none, or one of another tree; the message says what is wrong."""


def write_snapshot(layout: Layout, frames: Iterable[pl.DataFrame]) -> bytes:
    """The snapshot of a tree with these PAO frames, which are in order. O(bytes).

    Raises SnapshotError for a row of more than 128 MiB.
    """
    rows, encoded = 0, []
    for frame in _sized(frames):
        if frame.estimated_size() > _FRAME_BYTES_MAX // 2:
            raise SnapshotError(f"a row of {frame.estimated_size()} bytes is too large for a snapshot")
        rows += frame.height
        encoded.append(_block(encode_frame(frame)))
    texts = [_block(text) for text in _description(layout).values()]
    head = [_MAGIC, struct.pack("<H", _VERSION), *texts, struct.pack("<QI", rows, len(encoded))]
    content = b"".join([*head, *encoded])
    return content + _digest(content)


def read_snapshot(layout: Layout, data: bytes) -> Iterator[pl.DataFrame]:
    """The PAO frames of a snapshot, from untrusted bytes. O(bytes), one frame decoded at a time.

    A frame takes at most about 512 MiB while it is read. The iterator raises SnapshotError if the bytes are damaged, or
    of another version or layout, and for rows that are not where they belong; at the latest at its end.
    """
    reader = _Reader(data)
    _check_kind(reader)
    _check_description(reader, layout)
    rows, frames = reader.numbers("<QI")
    bound = LOWEST
    for index in range(frames):
        frame = _frame(reader.block(), index, layout)
        bound = _last_bound(frame, index, layout, bound)
        rows -= frame.height
        yield frame
    if rows or reader.left:
        raise SnapshotError("the snapshot does not hold as many rows as it says")


class _Reader:
    """Reads one part after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._at = 0
        self._end = len(data) - _DIGEST_BYTES

    @property
    def left(self) -> int:
        return self._end - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise SnapshotError("the snapshot ends too early")
        self._at += count
        return self.data[self._at - count : self._at]

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def block(self) -> bytes:
        return self.take(*self.numbers("<I"))


def _check_kind(reader: _Reader) -> None:
    if not reader.data.startswith(_MAGIC):
        raise SnapshotError("the bytes are no snapshot of a tree")
    reader.take(len(_MAGIC))
    (version,) = reader.numbers("<H")
    if version != _VERSION:
        raise SnapshotError(f"the snapshot has version {version}; this program reads version {_VERSION}")
    content = memoryview(reader.data)
    if _digest(content[:-_DIGEST_BYTES]) != content[-_DIGEST_BYTES:]:
        raise SnapshotError("the snapshot is damaged: its checksum is wrong")


def _check_description(reader: _Reader, layout: Layout) -> None:
    for what, own in _description(layout).items():
        found = reader.block()
        if found != own:
            raise SnapshotError(f"the snapshot has the {what} {_shown(found)}, but the tree has {_shown(own)}")


def _frame(data: bytes, index: int, layout: Layout) -> pl.DataFrame:
    try:
        return decode_frame(data, layout.schema, bytes_max=_FRAME_BYTES_MAX)
    except FrameError as error:
        raise SnapshotError(f"frame {index} of the snapshot: {error}") from error


def _last_bound(frame: pl.DataFrame, index: int, layout: Layout, bound: Bound) -> Bound:
    """The bound of the last row. Raises SnapshotError unless rows have their keys' hashes and ascend from a bound."""
    if not frame.height:
        raise SnapshotError(f"frame {index} of the snapshot is empty")
    panes, hashes = frame["pane"].to_numpy(), frame["hash"].to_numpy()
    if (hashes != layout.hashes(frame).to_numpy()).any():
        raise SnapshotError(f"frame {index} of the snapshot has a hash that is not its key's")
    descends = (panes[1:] < panes[:-1]) | ((panes[1:] == panes[:-1]) & (hashes[1:] < hashes[:-1]))
    if descends.any() or (panes[0], hashes[0]) < bound:
        raise SnapshotError(f"the rows of frame {index} of the snapshot are not in order")
    return int(panes[-1]), int(hashes[-1])


def _sized(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Regroups rows into frames of a suitable size: small frames together, large ones in halves."""
    few: list[pl.DataFrame] = []
    rows = size = 0
    for frame in chain.from_iterable(map(_halves, frames)):
        if few and (rows + frame.height > _FRAME_ROWS or size + frame.estimated_size() > _FRAME_BYTES):
            yield pl.concat(few)
            few, rows, size = [], 0, 0
        few.append(frame)
        rows, size = rows + frame.height, size + int(frame.estimated_size())
    if few:
        yield pl.concat(few)


def _halves(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    if frame.height <= 1 or frame.estimated_size() <= _FRAME_BYTES:
        yield frame
        return
    middle = frame.height // 2
    yield from _halves(frame.slice(0, middle))
    yield from _halves(frame.slice(middle))


def _description(layout: Layout) -> dict[str, bytes]:
    return {
        "keys": json.dumps([astuple(key) for key in layout.keys]).encode(),
        "aggregates": json.dumps([astuple(aggregate) for aggregate in layout.aggregates]).encode(),
        "seed": str(layout.seed).encode(),
    }


def _shown(text: bytes) -> str:
    return text[:_SHOWN].decode(errors="replace") + ("…" if len(text) > _SHOWN else "")


def _block(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _digest(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
