"""ELF's rule, the default: FISH with keys hot only where that is sure, fewer workers for each, and waits of now."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import numpy.typing as npt

from agent.grouping.blocks import EventBlock
from agent.grouping.dealing import Queues, deal_many
from agent.grouping.grouping import Assignment, Hashes, HotKeys, carried
from agent.grouping.published import keys_counted
from agent.grouping.ring import KeyOrders
from agent.grouping.simple import RingGrouping, phases
from agent.grouping.space_saving import SpaceSaving

LASTING_DECAY = 0.9
"""Factor of the counts that show lasting shares, after each epoch: they hold 10 epochs."""
RECENT_DECAY = 0.2
"""Factor of the counts that show which keys are hot, after each epoch: they hold 1.25 epochs."""
BURST_EVENTS = 200.0
"""Events after which the counts that show bursts are 1/e: a key that was rare can be hot after 50 events."""
HOT_DIVISOR = 4.0
"""A key is hot where its share is surely above 1 / (4 n)."""
SURE = 2.0
"""Standard deviations of a count by which it must be beyond a threshold."""
PARTS_PER_LOAD = 6.0
"""Workers of a hot key for each worker that its lasting share would fill."""
PARTS_PER_BURST = 11.0
"""Workers of a hot key for each worker that its share of now would surely fill: that bound is low, and time short."""
SHARE_OF_ALL = 0.05
"""Share of the events from which a key has all workers: it fills up whom the keys with few workers leave idle."""
SLACK = 0.5
"""Slots of this source by which the first worker of a key that is not hot may be worse than the second."""
MISSED_EVENTS = 4.0
"""Events that a worker may have missed and gets later, at most: if sources forget them, workers are less even."""
EPOCHS_DEALT = 5
"""Epochs of events that are counted and dealt at a time, at most."""


class Fish(RingGrouping):
    """FISH by ELF's rule.

    A key is hot while its recent count is two standard deviations above the threshold. It has as many workers as its
    lasting share needs, or a burst that is sure; the most frequent keys have all. An event of another key goes to its
    first worker unless that is half a slot worse than the second. Waits shorten with each block, by the part of each
    worker's time that this source has; below nothing by a few events, so that who was idle gets more afterwards.
    """

    name = "fish"

    def __init__(self, assignment: Assignment, source: int) -> None:
        super().__init__(assignment, source)
        self._phases = phases(source, len(assignment.workers))
        self._queued = np.zeros(len(assignment.workers))
        self._drained = 0.0
        self._events = 0
        self._epoch = keys_counted(len(assignment.workers))
        self._lasting = SpaceSaving(self._epoch)
        self._recent = Decaying(self._epoch)
        self._burst = Decaying(self._epoch)
        self._held = np.zeros(self._epoch, np.int64)
        self._orders = KeyOrders(self._epoch, self._ring)

    @property
    def waits(self) -> npt.NDArray[np.float64]:
        return np.maximum(0.0, self._queued) * self._speeds.slots

    def hot_keys(self) -> HotKeys:
        slots = np.flatnonzero(self._hot(np.arange(self._lasting.size)))
        slots = slots[np.argsort(-self._recent.counts[slots], kind="stable")]
        shares = self._recent.counts[slots] / max(self._recent.total, 1e-9)
        return HotKeys(self._lasting.hashes[slots], shares, np.maximum(self._held[slots], 1))

    def _carry(self, origins: npt.NDArray[np.int64]) -> None:
        super()._carry(origins)
        self._phases = phases(self.source, len(origins))
        self._queued = carried(self._queued, origins)
        self._epoch = keys_counted(len(origins))
        kept = self._lasting.resize(self._epoch)
        self._recent.resize(self._epoch, kept)
        self._burst.resize(self._epoch, kept)
        held = np.zeros(self._epoch, np.int64)
        held[: len(kept)] = np.minimum(self._held[kept], len(origins))
        self._held, self._orders = held, KeyOrders(self._epoch, self._ring)

    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        self._drain(len(hashes))
        most = EPOCHS_DEALT * self._epoch
        if len(hashes) <= most:
            return self._deal(EventBlock(hashes))
        pieces = [hashes[start : start + most] for start in range(0, len(hashes), most)]
        return np.concatenate([self._deal(EventBlock(piece)) for piece in pieces])

    def _drain(self, events: int) -> None:
        """Takes off what workers have processed since the last block; all the same where none has told its speed."""
        passed, self._drained = self._now - self._drained, self._now
        processed = passed / self._speeds.slots if self._speeds.known else events / len(self._sent)
        self._queued = np.maximum(-MISSED_EVENTS, self._queued - processed)

    def _deal(self, block: EventBlock) -> npt.NDArray[np.integer]:
        """Workers of a block's events. Keys with two workers choose first, as they have the least choice."""
        slots = self._count(block)
        hot = slots >= 0
        hot[hot] = self._hot(slots[hot])
        pace = self._speeds.slots
        queues = Queues(self._queued * pace, pace, self._stopped, self._phases)
        by_key = np.empty(block.rows, np.int16)
        hot_rows = block.rows_of(hot)
        if not hot.all():
            by_key[~hot_rows] = self._deal_two(block, ~hot, queues, SLACK)
        if hot.any():
            parts = self._hold(slots[hot])
            orders = self._orders.of(slots[hot], block.keys[hot], parts)
            by_key[hot_rows] = deal_many(block.counts[hot], parts, orders, queues, len(self._sent))
        self._queued += np.bincount(by_key, minlength=len(self._sent))
        return block.in_order(by_key)

    def _count(self, block: EventBlock) -> npt.NDArray[np.int64]:
        """Counts a block's keys; the slot of each. Epochs that end in a block are taken to end before it."""
        ended, self._events = divmod(self._events + block.rows - 1, self._epoch)
        self._events += 1
        if ended:
            self._lasting.decay(LASTING_DECAY**ended)
            self._recent.decay(RECENT_DECAY**ended)
        self._burst.decay(exp(-block.rows / BURST_EVENTS))
        slots, taken = self._lasting.add(block.keys, block.counts)
        self._held[taken] = 0
        self._orders.forget(taken)
        there = slots >= 0
        for count in (self._recent, self._burst):
            count.forget(taken)
            count.add(slots[there], block.counts[there], block.rows)
        return slots

    def _hot(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        expected = self._recent.total / (HOT_DIVISOR * len(self._sent))
        hot: npt.NDArray[np.bool_] = self._recent.counts[slots] > expected + SURE * sqrt(expected)
        return hot

    def _hold(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Workers of hot keys, never fewer than before."""
        workers = len(self._sent)
        lasting = self._lasting.counts[slots] / max(self._lasting.total, self._epoch)
        now = np.maximum(self._recent.sure_shares(slots), self._burst.sure_shares(slots))
        parts = np.ceil(workers * np.maximum(PARTS_PER_LOAD * lasting, PARTS_PER_BURST * now)) + 1
        parts[np.maximum(lasting, now) >= SHARE_OF_ALL] = workers
        held: npt.NDArray[np.int64] = np.minimum(np.maximum(self._held[slots], parts), workers).astype(np.int64)
        self._held[slots] = held
        return held


class Decaying:
    """Counts beside those of SpaceSaving that decay faster, slot by slot, of what has come since a key had its slot."""

    def __init__(self, capacity: int) -> None:
        self.counts = np.zeros(capacity)
        self.total = 0.0

    def decay(self, factor: float) -> None:
        """Multiplies all counts, and their sum."""
        self.counts *= factor
        self.total *= factor

    def forget(self, slots: npt.NDArray[np.int64]) -> None:
        """Slots that other keys have taken."""
        self.counts[slots] = 0.0

    def add(self, slots: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], events: int) -> None:
        """Counts the keys of slots, of so many events in all."""
        self.counts[slots] += counts
        self.total += events

    def resize(self, capacity: int, kept: npt.NDArray[np.int64]) -> None:
        """Changes the capacity; `kept` are the former slots of what is in the first slots."""
        counts = np.zeros(capacity)
        counts[: len(kept)] = self.counts[kept]
        self.counts = counts

    def sure_shares(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Shares that keys surely have: their counts less two standard deviations."""
        counts = self.counts[slots]
        shares: npt.NDArray[np.float64] = np.maximum(counts - SURE * np.sqrt(counts), 0.0) / self.total
        return shares
