"""Numbers the events that elements emit, the same when the same input is processed again."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.keyed.elements.runtime import NODE, SEQ, SOURCE
from agent.runtime.keyed.hosting.options import Ints
from agent.runtime.keyed.logical_nodes import NODES
from cbt.native.library import load
from overlay import Id

NODE_BITS = 10
RANK_BITS = 10
EVENT_BITS = 20
"""Low bits of the number of an event: those that elements without keys make of it are numbered in them."""
_RANKS = 1 << RANK_BITS


def channel_of(element: int, nodes: Ints) -> Ints:
    """The channels of a keyed element in its logical nodes."""
    return (np.int64(element) << NODE_BITS) | nodes.astype(np.int64)


def source_channel(node_id: Id, place: int) -> int:
    """The channel of an agent's source; its low bits rank it among channels, the same for all agents."""
    return _negative(f"{node_id:032x}", place % _RANKS)


@lru_cache(maxsize=1 << 14)
def derived_channel(parent: int, element: int, taken: int, emitted: int) -> int:
    """The channel of events that a keyless element emits for those of another channel, by the places of the types that
    it takes and emits."""
    start = (-1 - parent) % _RANKS if parent < 0 else parent >> NODE_BITS
    return _negative(f"{parent}/{element}/{taken}/{emitted}", (start * 67 + element * 7 + taken * 3 + emitted) % _RANKS)


def _negative(text: str, rank: int) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return -1 - ((int.from_bytes(digest, "big") >> (1 + RANK_BITS)) << RANK_BITS | rank)


def rank() -> pl.Expr:
    """The rank of the channel of each row: those of sources first, the same on any number of agents."""
    source = pl.col(SOURCE)
    return pl.when(source < 0).then((-1 - source) % _RANKS).otherwise(source + _RANKS)


def number_keyed(element: int, rows: pl.DataFrame, next_seq: Ints) -> pl.DataFrame:
    """Gives rows that a keyed element has emitted their channels and numbers. O(rows)."""
    channels, seqs = _numbers(element, np.ascontiguousarray(rows[NODE].to_numpy(), np.uint16), next_seq)
    time, *rest = (column for column in rows.get_columns() if column.name != NODE)
    return pl.DataFrame([time, pl.Series(SOURCE, channels), pl.Series(SEQ, seqs), *rest])


def _numbers(element: int, nodes: npt.NDArray[np.uint16], next_seq: Ints) -> tuple[Ints, Ints]:
    """The channels of the rows of nodes, and their numbers. The kernel does it in one pass."""
    if (library := load().library) is not None:
        channels, seqs = np.empty((2, len(nodes)), np.int64)
        library.elf_number(
            nodes.ctypes.data, len(nodes), element << NODE_BITS, next_seq.ctypes.data, EVENT_BITS,
            channels.ctypes.data, seqs.ctypes.data,
        )  # fmt: skip
        return channels, seqs
    order = np.argsort(nodes, kind="stable")  # of 16 bits, by their digits
    counts = np.bincount(nodes, minlength=NODES)
    begins = next_seq - (np.cumsum(counts) - counts)
    seqs = np.empty(len(nodes), np.int64)
    seqs[order] = (np.repeat(begins, counts) + np.arange(len(nodes))) << EVENT_BITS
    next_seq += counts
    return channel_of(element, nodes), seqs


def number_keyless(element: int, taken: int, emitted: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Gives rows that a keyless element has emitted, with @source and @seq of the event of each, their own."""
    events = rows[SEQ].to_numpy() >> EVENT_BITS
    different, inverse = np.unique(rows[SOURCE].to_numpy(), return_inverse=True)
    channels = np.array([derived_channel(one, element, taken, emitted) for one in different.tolist()], np.int64)
    seqs = (events << EVENT_BITS) + _places(inverse, events)
    numbers = {SOURCE: pl.Series(SOURCE, channels[inverse]), SEQ: pl.Series(SEQ, seqs)}
    columns = [numbers.get(column.name, column) for column in rows.get_columns() if column.name != NODE]
    return pl.DataFrame(columns)


def _places(*key: Ints) -> Ints:
    """The place of each row among those with its key, in their order. O(rows · log rows)."""
    order = np.lexsort(key)
    is_first = np.ones(len(order), bool)
    for one in key:
        ordered = one[order]
        is_first[1:] &= ordered[1:] == ordered[:-1]
    is_first[1:] = ~is_first[1:]
    begins = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - begins
    return places
