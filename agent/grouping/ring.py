"""The ring of workers (FISH, section 5): each key's order of workers, which changes little as workers come and go."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

VIRTUAL_NODES = 128
"""Points of each worker on the ring: its part of the keys differs from the others' by 9 % (one standard deviation)."""
ORDERS_MAX = 4096
"""Orders of workers that a ring remembers: more than there are hot keys, fewer than chosen keys could ask for."""
_POINT_BYTES = 8


@lru_cache(maxsize=4096)
def points_of(worker: bytes) -> npt.NDArray[np.uint64]:
    """A worker's points, from a hash of its id and their numbers, as one stream of bytes."""
    stream = hashlib.shake_128(worker).digest(VIRTUAL_NODES * _POINT_BYTES)
    return np.frombuffer(stream, "<u8").astype(np.uint64)


class HashRing:
    """Workers on a ring of 64-bit numbers; a key's order is the workers it meets from its hash on, each once.

    One worker more or less enters or leaves each key's order and changes nothing else.
    """

    def __init__(self, workers: tuple[bytes, ...]) -> None:
        points = np.concatenate([points_of(worker) for worker in workers])
        owners = np.repeat(np.arange(len(workers), dtype=np.int16), VIRTUAL_NODES)
        ids = np.repeat(np.argsort(np.argsort(np.array(workers, object))), VIRTUAL_NODES)
        order = np.lexsort((ids, points))
        self.workers = len(workers)
        self._points = points[order]
        self._owners = owners[order].astype(np.intp)
        self._seconds = _next_others(self._owners)
        self._orders: dict[int, npt.NDArray[np.int16]] = {}

    def first(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
        """The first worker of each key. O(keys · log points)."""
        return self._owners[self._at(hashes)]

    def first_two(self, hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The first two workers of each key, the same twice where there is one. O(keys · log points)."""
        at = self._at(hashes)
        return self._owners[at], self._seconds[at]

    def order(self, key_hash: int, count: int) -> npt.NDArray[np.int16]:
        """A key's first workers, at most `count`: a prefix of what a larger count gives."""
        at = int(self._at(np.array([key_hash], np.uint64))[0])
        found = self._orders.get(at)
        if found is None or len(found) < min(count, self.workers):
            if len(self._orders) >= ORDERS_MAX:
                self._orders.clear()
            found = self._orders[at] = self._walk(at, min(count, self.workers))
        return found[:count]

    def _at(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        at = self._points.searchsorted(hashes)
        at[at == len(self._points)] = 0
        return at

    def _walk(self, at: int, count: int) -> npt.NDArray[np.int16]:
        """At least `count` distinct workers from a point on, twice as many points being read until there are."""
        reach = 2 * count
        while True:
            met = np.take(self._owners, np.arange(at, at + min(reach, len(self._owners))), mode="wrap")
            at_first = np.full(self.workers, len(met))
            at_first[met[::-1]] = np.arange(len(met))[::-1]
            if (at_first < len(met)).sum() >= count:
                return np.asarray(met[np.sort(at_first[at_first < len(met)])], np.int16)
            reach *= 2


class KeyOrders:
    """The first workers of each key on the ring, in a matrix from which many rows are read at once."""

    def __init__(self, capacity: int, ring: HashRing) -> None:
        self._ring = ring
        self._workers = np.zeros((capacity, ring.workers), np.int16)
        self._known = np.zeros(capacity, np.int64)

    def forget(self, slots: npt.NDArray[np.int64]) -> None:
        """Slots that other keys have taken."""
        self._known[slots] = 0

    def of(
        self, slots: npt.NDArray[np.int64], keys: npt.NDArray[np.uint64], parts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int16]:
        """A row for each key, of which the first `parts` are its workers. O(keys · most parts)."""
        for index in np.flatnonzero(self._known[slots] < parts):
            order = self._ring.order(int(keys[index]), int(parts[index]))
            self._workers[slots[index], : len(order)] = order
            self._known[slots[index]] = len(order)
        return self._workers[slots, : int(parts.max())]


@lru_cache(maxsize=16)
def ring_of(workers: tuple[bytes, ...]) -> HashRing:
    """The ring of some workers, which all sources of an assignment share."""
    return HashRing(workers)


def _next_others(owners: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """For each point the owner of the next point that is another worker's."""
    starts = np.flatnonzero(owners != np.roll(owners, 1))
    if not len(starts):
        return owners
    following = np.searchsorted(starts, np.arange(len(owners)), side="right")
    return owners[starts[following % len(starts)]]
