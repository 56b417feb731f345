"""ELF's rule, the default: FISH with keys hot only where that is sure, fewer workers for each, and waits of now."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agent.grouping.blocks import EventBlock
from agent.grouping.dealing import Queues, deal_many
from agent.grouping.grouping import Assignment, Hashes, HotKeys, carried
from agent.grouping.published import halved, keys_counted
from agent.grouping.ring import KeyOrders
from agent.grouping.simple import RingGrouping
from agent.grouping.space_saving import SpaceSaving

BURST_DECAY = 0.2
"""Factor of the counts that show bursts, after each epoch: they hold 1.25 epochs."""
LASTING_DECAY = 0.9
"""Factor of the counts that show lasting shares, after each epoch: they hold 10 epochs."""
HOT_DIVISOR = 4.0
"""A key is hot where its share is surely above 1 / (4 n)."""
SURE = 2.0
"""Standard deviations of a count by which it must be beyond a threshold."""
PARTS_PER_LOAD = 6.0
"""Workers of a hot key for each worker that its lasting share would fill."""
PARTS_PER_BURST = 2.0
"""Workers of a hot key for each worker that its share of now would surely fill."""


class Fish(RingGrouping):
    """FISH by ELF's rule.

    A key is hot while its recent count is two standard deviations above the threshold. Its workers are those of
    Algorithm 2, but no more than its lasting share needs, or a burst that is sure. An event of another key goes to its
    first worker unless that is one event of this source worse than the second. Waits shorten with each block, by the
    part of each worker's time that this source has.
    """

    name = "fish"

    def __init__(self, assignment: Assignment, source: int) -> None:
        super().__init__(assignment, source)
        self._queued = np.zeros(len(assignment.workers))
        self._drained = 0.0
        self._events = 0
        self._epoch = keys_counted(len(assignment.workers))
        self._counted = SpaceSaving(self._epoch)
        self._recent = np.zeros(self._epoch)
        self._recent_total = 0.0
        self._held = np.zeros(self._epoch, np.int64)
        self._orders = KeyOrders(self._epoch, self._ring)

    @property
    def waits(self) -> npt.NDArray[np.float64]:
        return self._queued * self._slots()

    def hot_keys(self) -> HotKeys:
        slots = np.flatnonzero(self._hot(np.arange(self._counted.size)))
        slots = slots[np.argsort(-self._recent[slots], kind="stable")]
        shares = self._recent[slots] / max(self._recent_total, 1e-9)
        return HotKeys(self._counted.hashes[slots], shares, np.maximum(self._held[slots], 1))

    def _carry(self, origins: npt.NDArray[np.int64]) -> None:
        super()._carry(origins)
        self._queued = carried(self._queued, origins)
        self._epoch = keys_counted(len(origins))
        kept = self._counted.resize(self._epoch)
        recent, held = np.zeros(self._epoch), np.zeros(self._epoch, np.int64)
        recent[: len(kept)] = self._recent[kept]
        held[: len(kept)] = np.minimum(self._held[kept], len(origins))
        self._recent, self._held, self._orders = recent, held, KeyOrders(self._epoch, self._ring)

    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        places, done = [], 0
        self._drain(len(hashes))
        while done < len(hashes):
            piece = hashes[done : done + self._epoch - self._events]
            places.append(self._assign_piece(piece))
            done += len(piece)
            self._events += len(piece)
            if self._events >= self._epoch:
                self._events = 0
                self._counted.decay(LASTING_DECAY)
                self._recent *= BURST_DECAY
                self._recent_total *= BURST_DECAY
        return np.concatenate(places)

    def _slots(self) -> npt.NDArray[np.float64]:
        """Seconds from one event of this source to the next at each worker."""
        return self._speeds.seconds / self._speeds.shares

    def _drain(self, events: int) -> None:
        """Takes off what workers have processed since the last block; all the same where none has told its speed."""
        passed, self._drained = self._now - self._drained, self._now
        processed = passed / self._slots() if self._speeds.known else events / len(self._sent)
        self._queued = np.maximum(0.0, self._queued - processed)

    def _assign_piece(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        """Workers of events of one epoch."""
        block = EventBlock(hashes)
        slots = self._count(block)
        hot = slots >= 0
        hot[hot] = self._hot(slots[hot])
        queues = Queues(self.waits, self._slots(), self._stopped)
        by_key = np.empty(len(hashes), np.int16)
        if not hot.all():
            by_key[block.rows_of(~hot)] = self._deal_two(block, ~hot, queues, slack=1.0)
        if hot.any():
            parts = self._hold(slots[hot])
            orders = self._orders.of(slots[hot], block.keys[hot], parts)
            by_key[block.rows_of(hot)] = deal_many(block.counts[hot], parts, orders, queues, len(self._sent))
        self._queued += np.bincount(by_key, minlength=len(self._sent))
        return block.in_order(by_key)

    def _count(self, block: EventBlock) -> npt.NDArray[np.int64]:
        """Counts a block's keys; the slot of each."""
        slots, taken = self._counted.add(block.keys, block.counts)
        self._recent[taken] = 0.0
        self._held[taken] = 0
        self._orders.forget(taken)
        self._recent_total += float(block.counts.sum())
        there = slots >= 0
        self._recent[slots[there]] += block.counts[there]
        return slots

    def _hot(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        expected = self._recent_total / (HOT_DIVISOR * len(self._sent))
        sure: npt.NDArray[np.bool_] = self._recent[slots] > expected + SURE * np.sqrt(expected)
        return sure

    def _hold(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Workers of hot keys, never fewer than before."""
        workers = len(self._sent)
        recent = self._recent[slots]
        lasting = self._counted.counts[slots] / self._counted.total
        sure = np.maximum(recent - SURE * np.sqrt(recent), 0.0) / self._recent_total
        needed = np.maximum(np.ceil(PARTS_PER_LOAD * lasting * workers) + 1, np.ceil(PARTS_PER_BURST * sure * workers))
        published = halved(workers, self._recent[: self._counted.size].max() / recent)
        parts = np.minimum(np.maximum(published, 2), needed).astype(np.int64)
        self._held[slots] = np.minimum(np.maximum(self._held[slots], parts), workers)
        return self._held[slots]
