"""D-Choices and W-Choices: keys that are hot over a source's lifetime may have many workers, all others two."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil

import numpy as np
import numpy.typing as npt

from agent.grouping.blocks import EventBlock
from agent.grouping.dealing import Queues, Workers, deal_many
from agent.grouping.grouping import Assignment, Hashes, HotKeys
from agent.grouping.simple import RingGrouping
from agent.grouping.space_saving import SpaceSaving

CAPACITY = 1000
"""Keys that are counted."""
HOT_DIVISOR = 5
"""A key is hot above a share of 1 / (5 n) of the source's events."""
_TRIED = 16
"""Numbers of workers that are tried at a time."""
IMBALANCE = 1e-4
"""Share of the events by which D-Choices lets a worker have more than the mean."""


class LifetimeChoices(RingGrouping):
    """Base of both: counts keys from the first event on."""

    def __init__(self, assignment: Assignment, source: int) -> None:
        super().__init__(assignment, source)
        self._counted = SpaceSaving(CAPACITY)

    def hot_keys(self) -> HotKeys:
        slots = self._hot()
        shares = self._counted.counts[slots] / max(self._counted.total, 1.0)
        return HotKeys(self._counted.hashes[slots], shares, np.full(len(slots), self._parts(shares)))

    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        block = EventBlock(hashes)
        slots, _ = self._counted.add(block.keys, block.counts)
        hot_slots = self._hot()
        hot = np.isin(slots, hot_slots)
        queues = Queues(self._sent.astype(np.float64), np.ones(len(self._sent)), self._stopped)
        by_key = np.empty(len(hashes), np.int16)
        if not hot.all():
            by_key[block.rows_of(~hot)] = self._deal_two(block, ~hot, queues)
        if hot.any():
            parts = self._parts(self._counted.counts[hot_slots] / self._counted.total)
            by_key[block.rows_of(hot)] = self._deal_hot(block.keys[hot], block.counts[hot], parts, queues)
        return block.in_order(by_key)

    def _hot(self) -> npt.NDArray[np.int64]:
        return self._counted.above(self._counted.total / (HOT_DIVISOR * len(self._sent)))

    def _deal_hot(self, keys: Hashes, counts: npt.NDArray[np.int64], parts: int, queues: Queues) -> Workers:
        """Workers of the rows of hot keys, key by key. Where all may have all workers, they are dealt as one key."""
        if parts >= len(self._sent):
            everyone = np.arange(len(self._sent), dtype=np.int16)[None, :]
            return deal_many(counts.sum(keepdims=True), np.array([parts]), everyone, queues, parts)
        orders = np.array([self._ring.order(int(key), parts) for key in keys])
        return deal_many(counts, np.full(len(keys), parts), orders, queues, len(self._sent))

    @abstractmethod
    def _parts(self, shares: npt.NDArray[np.float64]) -> int:
        """Workers that each hot key may have; their shares are given, the largest first."""


class WideChoices(LifetimeChoices):
    """W-Choices: an event of a hot key goes to that worker of all which this source has sent the fewest."""

    name = "wchoices"

    def _parts(self, shares: npt.NDArray[np.float64]) -> int:  # noqa: ARG002
        return len(self._sent)


class DynamicChoices(LifetimeChoices):
    """D-Choices: hot keys may have their first d workers, with the least d that balances the estimated shares."""

    name = "dchoices"

    def _parts(self, shares: npt.NDArray[np.float64]) -> int:
        if not len(shares):
            return min(2, len(self._sent))
        return least_parts(shares, len(self._sent))


def least_parts(shares: npt.NDArray[np.float64], workers: int) -> int:
    """The least d with which no prefix of the hot keys overloads the workers that it reaches (Nasir and others, 2016,
    section 4); all workers where there is none. O(hot keys · workers)."""
    heads = np.cumsum(shares)
    tails = heads[-1] - heads
    rest = max(0.0, 1.0 - heads[-1])
    for begin in range(min(max(2, ceil(shares[0] * workers)), workers), workers, _TRIED):
        parts = np.arange(begin, min(begin + _TRIED, workers))[:, None]
        reached = 1 - (1 - 1 / workers) ** (np.arange(1, len(shares) + 1) * parts)
        loads = heads + reached**parts * tails + reached**2 * rest
        balanced = (loads <= workers * reached * (1 / workers + IMBALANCE)).all(axis=1)
        if balanced.any():
            return begin + int(balanced.argmax())
    return workers
