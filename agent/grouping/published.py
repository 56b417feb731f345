"""FISH as it is published (sections 4.1 and 4.2): the rival of ELF's own rule, with the constants that it varies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agent.grouping.blocks import EventBlock
from agent.grouping.dealing import Queues, deal_many
from agent.grouping.grouping import Assignment, Hashes, HotKeys, carried
from agent.grouping.ring import KeyOrders
from agent.grouping.simple import RingGrouping
from agent.grouping.space_saving import SpaceSaving

KEYS_COUNTED = 1000
"""Keys that a source counts, and events of an epoch, with up to 128 workers."""
_WORKERS_COUNTED = 128
KEYS_PER_WORKER = 8
"""Keys and events of an epoch for each worker where there are more than 128: with fewer every key would be hot."""


@dataclass(frozen=True)
class FishOptions:
    """Constants of FISH: decay of counts after an epoch, divisor of the threshold 1 / (divisor · n), keys counted and
    events of an epoch (None: by the number of workers), seconds between two estimates of waits, workers of a hot key at
    least, and whether hot keys have as many as their shares ask for (Algorithm 2) or all."""

    alpha: float = 0.2
    divisor: float = 4.0
    capacity: int | None = None
    epoch: int | None = None
    interval: float = 10.0
    parts_min: int = 2
    all_workers: bool = False


def keys_counted(workers: int) -> int:
    """Keys that a source counts, and events of an epoch."""
    return KEYS_COUNTED if workers <= _WORKERS_COUNTED else max(KEYS_COUNTED, KEYS_PER_WORKER * workers)


class PublishedFish(RingGrouping):
    """FISH: keys hot in recent epochs have as many workers as Algorithm 2 gives them, and each event the one of them
    with the least estimated wait; other keys have two."""

    name = "published"

    def __init__(self, assignment: Assignment, source: int, options: FishOptions | None = None) -> None:
        super().__init__(assignment, source)
        self.options = options or FishOptions()
        self._queued = np.zeros(len(assignment.workers))
        self._estimated = 0.0
        self._events = 0
        self._size()
        self._counted = SpaceSaving(self._capacity)
        self._held = np.zeros(self._capacity, np.int64)
        self._orders = KeyOrders(self._capacity, self._ring)

    @property
    def waits(self) -> npt.NDArray[np.float64]:
        return self._queued * self._speeds.seconds

    def hot_keys(self) -> HotKeys:
        slots = self._counted.above(self._hot_above())
        shares = self._counted.counts[slots] / max(self._counted.total, 1e-9)
        return HotKeys(self._counted.hashes[slots], shares, np.maximum(self._held[slots], 1))

    def _size(self) -> None:
        most = keys_counted(len(self.assignment.workers))
        self._capacity, self._epoch = self.options.capacity or most, self.options.epoch or most

    def _carry(self, origins: npt.NDArray[np.int64]) -> None:
        super()._carry(origins)
        self._queued = carried(self._queued, origins)
        self._size()
        kept = self._counted.resize(self._capacity)
        held = np.zeros(self._capacity, np.int64)
        held[: len(kept)] = np.minimum(self._held[kept], len(origins))
        self._held, self._orders = held, KeyOrders(self._capacity, self._ring)

    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        self._estimate()
        places, done = [], 0
        while done < len(hashes):
            piece = hashes[done : done + self._epoch - self._events]
            places.append(self._assign_piece(piece))
            done += len(piece)
            self._events += len(piece)
            if self._events >= self._epoch:
                self._events = 0
                self._counted.decay(self.options.alpha)
        return np.concatenate(places)

    def _estimate(self) -> None:
        """Takes off what workers have processed, every so many seconds (equation 1)."""
        intervals = (self._now - self._estimated) // self.options.interval
        if intervals > 0:
            self._estimated += intervals * self.options.interval
            if self._speeds.known:
                processed = intervals * self.options.interval / self._speeds.seconds
                self._queued = np.maximum(0.0, self._queued - processed)

    def _assign_piece(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        """Workers of events of one epoch."""
        block = EventBlock(hashes)
        slots, taken = self._counted.add(block.keys, block.counts)
        self._held[taken] = 0
        self._orders.forget(taken)
        hot = (slots >= 0) & (self._counted.counts[slots] > self._hot_above())
        queues = Queues(self.waits, self._speeds.seconds, self._stopped)
        by_key = np.empty(len(hashes), np.int16)
        if not hot.all():
            by_key[block.rows_of(~hot)] = self._deal_two(block, ~hot, queues)
        if hot.any():
            parts = self._hold(slots[hot])
            orders = self._orders.of(slots[hot], block.keys[hot], parts)
            by_key[block.rows_of(hot)] = deal_many(block.counts[hot], parts, orders, queues, len(self._sent))
        self._queued += np.bincount(by_key, minlength=len(self._sent))
        return block.in_order(by_key)

    def _hot_above(self) -> float:
        return self._counted.total / (self.options.divisor * len(self._sent))

    def _hold(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Workers of hot keys, never fewer than before (Algorithm 2)."""
        workers = len(self._sent)
        if self.options.all_workers:
            parts = np.full(len(slots), workers)
        else:
            ratios = self._counted.counts[: self._counted.size].max() / self._counted.counts[slots]
            parts = np.maximum(halved(workers, ratios), min(self.options.parts_min, workers))
        self._held[slots] = np.maximum(self._held[slots], parts)
        return self._held[slots]


def halved(workers: int, ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Workers, halved for each time that the most frequent key is twice as frequent again: n / 2^floor(log2(ratio))."""
    return (workers / 2.0 ** np.floor(np.log2(ratios))).astype(np.int64)
