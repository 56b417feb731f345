"""Fragments: sorted, aggregated runs of PAOs, cut from a buffer by key range and compressed."""

from dataclasses import dataclass

import polars as pl

from cbt.codec.frames import decode_frame, encode_frame

Bound = tuple[int, int]  # (pane, hash): where a range of the tree begins or ends
LOWEST: Bound = (-(2**63), 0)
_UNLIMITED = 2**63 - 1  # fragments are trusted: this process packed them

Panes = tuple[int, int]  # the first and the last of a range of panes
EVERY_PANE: Panes = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A compressed run of `rows` PAOs with ascending (pane, hash), from `first_pane` to `last_pane`."""

    data: bytes
    rows: int
    raw_bytes: int
    first_pane: int
    last_pane: int

    @classmethod
    def pack(cls, frame: pl.DataFrame) -> "Fragment":
        """Compresses a sorted frame of at least one row. O(bytes)."""
        panes = frame["pane"]
        return cls(encode_frame(frame), frame.height, int(frame.estimated_size()), panes[0], panes[-1])

    def unpack(self, schema: pl.Schema) -> pl.DataFrame:
        """The run, decompressed. O(bytes)."""
        return unpacked(self.data, schema)


def unpacked(data: bytes, schema: pl.Schema) -> pl.DataFrame:
    """The run that a fragment's bytes hold. O(bytes)."""
    return decode_frame(data, schema, bytes_max=_UNLIMITED)


def panes_of(pane: int | None, upto: int | None) -> Panes:
    """The range of one pane, of all panes up to one, or of every pane."""
    if pane is not None:
        return pane, pane
    return EVERY_PANE if upto is None else (EVERY_PANE[0], upto)


def of_panes(frame: pl.DataFrame, panes: Panes) -> pl.DataFrame:
    """The rows of a range of panes of a sorted frame. O(log n)."""
    if panes == EVERY_PANE:
        return frame
    start = int(frame["pane"].search_sorted(panes[0], side="left"))
    return frame.slice(start, int(frame["pane"].search_sorted(panes[1], side="right")) - start)


def without_panes(frame: pl.DataFrame, panes: Panes) -> pl.DataFrame:
    """The rows outside a range of panes. O(n)."""
    return frame.filter(~pl.col("pane").is_between(*panes))
