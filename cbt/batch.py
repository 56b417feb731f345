"""Batches: PAOs of one pane, in the order of their keys' hashes, on their way down the tree.

A key is told from others by its *identity*: its 64-bit hash, and the upper half of a second 64-bit hash that is keyed
with a secret of the process, so that nobody can make both collide. That two of n keys share an identity has a chance of
about n² in 2**97.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from cbt.identities import Checks, Hashes, Rows
from cbt.layout import Layout
from cbt.states import Sums

_SECRET = hash("the second hash of keys") & 0xFFFF_FFFF_FFFF_FFFF  # of strings, Python's hash differs in each process
_INDEX_BITS_MAX = 24


@dataclass(frozen=True, slots=True)
class Batch:
    """Distinct keys of one pane in hash order. Row i's key is row `rows[i]` of `keys`.

    Its states are `sums` (the state columns that add up as integers) and `others`, both in the batch's order.
    """

    pane: int
    hashes: Hashes
    checks: Checks
    keys: pl.DataFrame
    rows: Rows
    sums: Sums
    others: pl.DataFrame | None

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, start: int, end: int) -> Batch:
        """Some of the rows. O(1), and O(rows) for states that are not sums."""
        inside = slice(start, end)
        sums = {name: column[inside] for name, column in self.sums.items()}
        others = None if self.others is None else self.others.slice(start, end - start)
        return Batch(
            self.pane, self.hashes[inside], self.checks[inside], self.keys, self.rows[inside], sums, others
        )  # fmt: skip

    def frame(self, layout: Layout) -> pl.DataFrame:
        """The same as a PAO frame. O(rows)."""
        keys = self.keys[self.rows.astype(np.uint32)]
        return pao_frame(layout, self.pane, self.hashes, keys, layout.states.frame(self.sums, self.others))


def lift(layout: Layout, block: pl.DataFrame) -> Batch:
    """The PAOs of a block of raw rows of one pane. O(n log n)."""
    keys = layout.keys_of(block)
    hashes, checks = identities_of(layout, keys)
    rows, starts, *identities = _grouped(hashes, checks)
    states = layout.lift_runs(block, rows, starts)
    return Batch(int(block["pane"][0]), *identities, keys, rows[starts], *states)


def of_frame(layout: Layout, frame: pl.DataFrame) -> Batch:
    """A PAO frame of one pane, in any order and with keys in several rows. O(n log n)."""
    keys = frame.select(layout.key_names) if layout.keys else pl.DataFrame(height=frame.height)
    hashes, checks = identities_of(layout, keys)
    rows, starts, *identities = _grouped(hashes, checks)
    states = layout.states.merge_runs(frame, rows, starts)
    return Batch(int(frame["pane"][0]), *identities, keys, rows[starts], *states)


def identities_of(layout: Layout, keys: pl.DataFrame) -> tuple[Hashes, Checks]:
    """Each row's hash and check, as two arrays."""
    if not keys.width:
        return np.zeros(keys.height, np.uint64), np.zeros(keys.height, np.uint32)
    hashes = layout.hashes(keys).to_numpy()
    return hashes, (keys.hash_rows(_SECRET).to_numpy() >> np.uint64(32)).astype(np.uint32)


def pao_frame(
    layout: Layout, pane: int, hashes: Hashes, keys: pl.DataFrame, states: pl.DataFrame
) -> pl.DataFrame:  # fmt: skip
    """A PAO frame of one pane from its columns, ordered by (hash, keys)."""
    count = len(hashes)
    frame = pl.DataFrame(
        [
            pl.repeat(pane, count, dtype=pl.Int64, eager=True).alias("pane"),
            pl.Series("hash", hashes),
            *keys.get_columns(),
            *states.get_columns(),
        ]
    ).select(layout.schema.names())
    if count > 1 and (hashes[1:] <= hashes[:-1]).any():
        frame = frame.sort("hash", *layout.key_names, nulls_last=True)
    return frame


def _grouped(hashes: Hashes, checks: Checks) -> tuple[Rows, Rows, Hashes, Checks]:
    """The rows in the order of their identities, where in that order a new one begins, and these identities."""
    rows = _by_hash(hashes)
    ordered = hashes[rows]
    if (ordered[1:] < ordered[:-1]).any():  # two hashes with the same upper bits
        rows = np.argsort(hashes)
        ordered = hashes[rows]
    ordered_checks = checks[rows]
    other_hash = ordered[1:] != ordered[:-1]
    other_check = ordered_checks[1:] != ordered_checks[:-1]
    if (other_check > other_hash).any():  # two keys with the same hash
        rows = np.lexsort((checks, hashes))
        ordered, ordered_checks = hashes[rows], checks[rows]
        other_hash = ordered[1:] != ordered[:-1]
        other_check = ordered_checks[1:] != ordered_checks[:-1]
    starts = np.flatnonzero(np.concatenate(([True], other_hash | other_check)))
    return rows, starts, ordered[starts], ordered_checks[starts]


def _by_hash(hashes: Hashes) -> Rows:
    """Almost `argsort`, three times as fast: the order of numbers whose upper bits are the hash's, the lower the row's."""
    count = len(hashes)
    bits = max(1, (count - 1).bit_length())
    if bits > _INDEX_BITS_MAX:
        return np.argsort(hashes)
    low = np.uint64((1 << bits) - 1)
    packed = (hashes & ~low) | np.arange(count, dtype=np.uint64)
    packed.sort()
    return (packed & low).astype(np.intp)
