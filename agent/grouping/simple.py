"""Groupings that count no keys: SHUFFLE, FIELDS and PKG (FISH, section 2.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agent.grouping.blocks import EventBlock
from agent.grouping.dealing import Queues, Workers, deal_two, spread_two
from agent.grouping.grouping import Assignment, Grouping, Hashes
from agent.grouping.ring import ring_of

_GOLDEN = 0.6180339887498949
"""The golden ratio's fraction: its multiples spread the first places of however many sources evenly."""
_SILVER = 0.4142135623730951
"""The silver ratio's fraction: its multiples spread a source's phases over however many workers."""
_LOW_BITS = np.uint64(0xFFFF)
"""Bits of a hash that order keys with as many events: neighbours on the ring are not to choose at the same time."""
_LOW_BITS_END = float(_LOW_BITS + 1)
_TIE = 1e-9
"""Slots that the first worker may be worse than the second and is still taken: of equal ones the first is."""
_PIECE = 2
"""Events that choose among two workers at the same time, in multiples of the workers; more of a large block."""
_PIECES_MAX = 32
"""Upper bound on the pieces of a block that choose one after the other."""


def phases(source: int, workers: int) -> npt.NDArray[np.float64]:
    """Parts of a turn by which a source is ahead at each worker: those of all sources are spread evenly."""
    return np.asarray((source * _GOLDEN + np.arange(workers) * _SILVER) % 1.0, np.float64)


class ShuffleGrouping(Grouping):
    """Sends events to all workers in turn, each source from a place of its own on."""

    name = "shuffle"

    def __init__(self, assignment: Assignment, source: int) -> None:
        super().__init__(assignment, source)
        self._turn = int(source * _GOLDEN % 1.0 * len(assignment.workers))

    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        going = np.flatnonzero(~self._stopped)
        workers = going if len(going) else np.arange(len(self._sent))
        turns = np.arange(self._turn, self._turn + len(hashes))
        self._turn = int(turns[-1]) + 1
        return workers[turns % len(workers)]


class RingGrouping(Grouping):
    """Base of the groupings that know each key's order of workers."""

    def __init__(self, assignment: Assignment, source: int) -> None:
        super().__init__(assignment, source)
        self._ring = ring_of(assignment.workers)

    def _carry(self, origins: npt.NDArray[np.int64]) -> None:
        super()._carry(origins)
        self._ring = ring_of(self.assignment.workers)

    def _deal_two(
        self, block: EventBlock, which: npt.NDArray[np.bool_], queues: Queues, slack: float = _TIE
    ) -> Workers:
        """The workers of some keys' rows, in the order of keys, each of its key's first two."""
        keys, counts = block.keys[which], block.counts[which]
        firsts, seconds = self._ring.first_two(keys)
        largest_first = ((keys & _LOW_BITS) / _LOW_BITS_END - counts).argsort()
        kept = np.empty(len(counts), np.int64)
        kept[largest_first] = deal_two(
            counts[largest_first],
            firsts[largest_first],
            seconds[largest_first],
            queues,
            max(_PIECE * len(self._sent), int(counts.sum()) // _PIECES_MAX),
            slack,
        )
        return spread_two(kept, counts, firsts, seconds)


class FieldsGrouping(RingGrouping):
    """Sends all events of a key to its first worker."""

    name = "fields"

    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        return self._ring.first(hashes)


class PartialKeyGrouping(RingGrouping):
    """Sends an event to that one of its key's first two workers which this source has sent fewer to."""

    name = "pkg"

    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        block = EventBlock(hashes)
        queues = Queues(self._sent.astype(np.float64), np.ones(len(self._sent)), self._stopped)
        return block.in_order(self._deal_two(block, np.ones(len(block.keys), bool), queues))
