"""Batches: PAOs of one pane, in the order of their keys' hashes, on their way down the tree.

A key is told from others by its *identity*: its 64-bit hash, and the upper half of a second 64-bit hash that is keyed
with a secret of the process, so that nobody can make both collide. That two of n keys share an identity has a chance of
about n² in 2**97.
"""

from __future__ import annotations

from ctypes import CDLL, byref
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from cbt.algebra.key_index import Checks, Hashes, Rows
from cbt.layout.layout import Layout
from cbt.layout.state_arrays import Arrays
from cbt.native.arrow import FORMATS, STORED, arrays_of, read_all
from cbt.native.library import Column, KernelBlock, load
from cbt.tree.key_store import EncodedKeys, FrameKeys, Keys

_OTHER_SECRET = hash("the hash of keys as they are in a block") & 0xFFFF_FFFF_FFFF_FFFF
_SECRET = hash("the second hash of keys") & 0xFFFF_FFFF_FFFF_FFFF  # of strings, Python's hash differs in each process
SECRETS = np.array([hash(f"word {word} of the secret") & 0xFFFF_FFFF_FFFF_FFFF for word in range(8)], np.uint64)
"""The secret of the kernel's checks."""
_PACKED_BITS_MAX = 30


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Distinct keys of one pane in hash order. Row i's key is row `rows[i]` of `keys`.

    Its states are `arrays` and `others`, both in the batch's order.
    """

    pane: int
    hashes: Hashes
    checks: Checks
    keys: Keys
    rows: Rows
    arrays: Arrays
    others: pl.DataFrame | None

    def __len__(self) -> int:
        return len(self.hashes)

    def part(self, start: int, end: int) -> RowBatch:
        """A range of the rows. O(1), and O(rows) for states that are in no array."""
        inside = slice(start, end)
        arrays = {name: states[inside] for name, states in self.arrays.items()}
        others = None if self.others is None else self.others.slice(start, end - start)
        return RowBatch(
            self.pane, self.hashes[inside], self.checks[inside], self.keys, self.rows[inside], arrays, others
        )  # fmt: skip

    def states(self, rows: Rows) -> tuple[Arrays, pl.DataFrame | None]:
        """The states of some of the rows. O(rows)."""
        arrays = {name: states[rows] for name, states in self.arrays.items()}
        return arrays, None if self.others is None else self.others[rows.astype(np.uint32)]

    def frame(self, layout: Layout) -> pl.DataFrame:
        """The batch as a PAO frame. O(rows)."""
        keys = self.keys.frame(self.rows)
        return pao_frame(layout, self.pane, self.hashes, keys, layout.states.frame(self.arrays, self.others, len(self)))


def lift(layout: Layout, block: pl.DataFrame) -> list[RowBatch]:
    """The PAOs of a block of raw rows, pane by pane. O(n log n)."""
    if layout.has_items:
        return of_frame(layout, layout.group(block))
    if layout.rewrites_keys:
        return of_frame(layout, _lifted_as_it_is(layout, block))
    keys = layout.keys_of(block)
    order = _Order.of(block["pane"], *identities_of(layout, keys))
    return order.batches(keys, *layout.lift_runs(block, order.rows, order.starts))


def _lifted_as_it_is(layout: Layout, block: pl.DataFrame) -> pl.DataFrame:
    """PAOs by the keys' physical form in this block: writing each distinct key as text is cheaper than writing each
    row's."""
    keys = block.select(layout.key_names)
    order = _Order.of(block["pane"], keys.hash_rows(_OTHER_SECRET).to_numpy(), _checks(keys))
    states = layout.states.frame(*layout.lift_runs(block, order.rows, order.starts), len(order.starts))
    firsts = block[order.rows[order.starts].astype(np.uint32)]
    return pl.concat([firsts.select("pane"), layout.keys_of(firsts), states], how="horizontal")


def of_frame(layout: Layout, frame: pl.DataFrame) -> list[RowBatch]:
    """The batches of a PAO frame in any order, with keys in several rows, pane by pane. O(n log n)."""
    keys = frame.select(layout.key_names) if layout.key_names else pl.DataFrame(height=frame.height)
    order = _Order.of(frame["pane"], *identities_of(layout, keys))
    return order.batches(keys, *layout.states.merge_runs(frame, order.rows, order.starts))


def identities_of(layout: Layout, keys: pl.DataFrame) -> tuple[Hashes, Checks]:
    """Each row's hash and check, as two arrays."""
    if not keys.width:
        return np.zeros(keys.height, np.uint64), np.zeros(keys.height, np.uint32)
    hashes = layout.hashes(keys).to_numpy()
    library = load().library
    if library is None or layout.has_items or not keys.height:
        return hashes, _checks(keys)
    return hashes, _native_checks(library, keys)


def hashes_of(layout: Layout, keys: Keys, count: int) -> Hashes:
    """The hashes of `count` keys. O(bytes)."""
    if not layout.key_names:
        return np.zeros(count, np.uint64)
    library = load().library
    if library is None or not isinstance(keys, EncodedKeys) or [*keys.schema.values()] != [pl.String()]:
        return layout.hashes(keys.frame(np.arange(count))).to_numpy()
    (column,) = keys.columns
    hashes, ends, text = np.empty(count, np.uint64), column.all_ends, np.frombuffer(column.text, np.uint8)
    library.elf_text_hashes(
        text.ctypes.data, ends.ctypes.data, None if column.valid is None else column.valid.ctypes.data, count,
        layout.seed, hashes.ctypes.data,
    )  # fmt: skip
    return hashes


def _checks(keys: pl.DataFrame) -> Checks:
    return (keys.hash_rows(_SECRET).to_numpy() >> np.uint64(32)).astype(np.uint32)


def _native_checks(library: CDLL, keys: pl.DataFrame) -> Checks:
    """The checks that the kernel gives keys, whichever way they came."""
    checks = np.empty(keys.height, np.uint32)
    with arrays_of(keys) as arrays:
        columns = [Column(arrays.columns[name], FORMATS[dtype], STORED[dtype]) for name, dtype in keys.schema.items()]
        block = KernelBlock(keys=(Column * len(columns))(*columns), keys_count=len(columns), rows=keys.height)
        read_all(block, lambda: library.elf_checks(byref(block), SECRETS.ctypes.data, checks.ctypes.data))
    return checks


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


@dataclass(frozen=True, slots=True)
class _Order:
    """`rows` in the order of pane and identity, and the places in that order where a new identity begins."""

    rows: Rows
    starts: Rows
    hashes: Hashes
    checks: Checks
    panes: list[int]
    ends: list[int]
    """The end of each pane among `starts`."""

    @classmethod
    def of(cls, pane: pl.Series, hashes: Hashes, checks: Checks) -> _Order:
        panes = pane.unique().sort()
        if len(panes) == 1 and not hashes[0] and not (hashes.any() or checks.any()):  # all are of one group
            return cls(np.arange(len(hashes)), np.zeros(1, np.intp), hashes[:1], checks[:1], panes.to_list(), [1])
        codes = np.searchsorted(panes.to_numpy(), pane.to_numpy()) if len(panes) > 1 else None
        rows = _by_hash(hashes, codes, len(panes))
        ordered = hashes[rows], checks[rows], None if codes is None else codes[rows]
        begins, is_ordered = _begins(*ordered)
        if not is_ordered:
            rows = np.lexsort((checks, hashes) if codes is None else (checks, hashes, codes))
            ordered = hashes[rows], checks[rows], None if codes is None else codes[rows]
            begins, _ = _begins(*ordered)
        starts = np.flatnonzero(begins)
        ends = [len(starts)]
        if ordered[2] is not None:
            ends = np.searchsorted(ordered[2][starts], np.arange(len(panes)), side="right").tolist()
        return cls(rows, starts, ordered[0][starts], ordered[1][starts], panes.to_list(), ends)

    def batches(self, keys: pl.DataFrame, arrays: Arrays, others: pl.DataFrame | None) -> list[RowBatch]:
        """Batches of these keys, which are in the block's order, and of states, which are in this order."""
        whole = RowBatch(0, self.hashes, self.checks, FrameKeys(keys), self.rows[self.starts], arrays, others)
        starts = [0, *self.ends[:-1]]
        return [
            replace(whole.part(start, end), pane=pane)
            for pane, start, end in zip(self.panes, starts, self.ends, strict=True)
        ]


def _by_hash(hashes: Hashes, codes: Rows | None, panes: int) -> Rows:
    """The order of numbers whose upper bits are the pane's code, the next the hash's, and the lower the row's: almost
    always that of (code, hash), in a third of the time."""
    row_bits, pane_bits = max(1, (len(hashes) - 1).bit_length()), (panes - 1).bit_length()
    if row_bits + pane_bits > _PACKED_BITS_MAX:
        return np.arange(len(hashes))
    low = np.uint64((1 << row_bits) - 1)
    packed = (hashes >> np.uint64(pane_bits)) & ~low
    packed |= np.arange(len(hashes), dtype=np.uint64)
    if codes is not None:
        packed |= codes.astype(np.uint64) << np.uint64(64 - pane_bits)
    packed.sort()
    return (packed & low).astype(np.intp)


def _begins(hashes: Hashes, checks: Checks, codes: Rows | None) -> tuple[npt.NDArray[np.bool_], bool]:
    """Marks the rows where an identity begins; and whether the order is that of (code, hash) with no two keys of one
    hash."""
    begins = np.ones(len(hashes), dtype=bool)
    np.not_equal(hashes[1:], hashes[:-1], out=begins[1:])
    descends = hashes[1:] < hashes[:-1]
    collides = (checks[1:] != checks[:-1]) & ~begins[1:]
    if codes is not None:
        other_pane = codes[1:] != codes[:-1]
        descends &= ~other_pane
        collides &= ~other_pane
        descends |= codes[1:] < codes[:-1]
        begins[1:] |= other_pane
    begins[1:] |= collides
    return begins, not (descends.any() or collides.any())
