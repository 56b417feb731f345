"""Deals the events of keys to workers by their waits, many keys at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Workers = npt.NDArray[np.int16]


@dataclass(slots=True)
class Queues:
    """Waits of all workers, which grow as events are dealt; an event adds its worker's slot. Stopped ones are chosen
    last."""

    waits: Floats
    slots: Floats
    stopped: npt.NDArray[np.bool_]

    def add(self, workers: npt.NDArray[np.integer], counts: Floats | Ints) -> None:
        """Lengthens the queues of workers, each as often as it is named."""
        self.waits += np.bincount(workers, counts, len(self.waits)) * self.slots


def deal_two(counts: Ints, firsts: Workers, seconds: Workers, queues: Queues, piece: int, slack: float = 1.0) -> Ints:
    """Deals each key's events to its first worker, and to the second where the first is `slack` slots worse.

    Keys of every so many rows, about `piece` events, choose at the same time. Returns what is the first worker's.
    """
    kept = np.empty(len(counts), np.int64)
    pieces = max(1, min(len(counts), -(-int(counts.sum()) // piece)))
    uniform = bool((queues.slots == queues.slots[0]).all())
    for start in range(pieces):
        every = slice(start, None, pieces)
        count, first, second = counts[every], firsts[every], seconds[every]
        lead = queues.waits[second] - queues.waits[first]
        if uniform:
            slot = queues.slots[0]
            wanted = np.ceil((lead / slot + (count - 1 + slack)) * 0.5)
        else:
            own, other = queues.slots[first], queues.slots[second]
            wanted = np.ceil((lead + (count - 1) * other + slack * own) / (own + other))
        share = np.minimum(np.maximum(wanted, 0), count)
        share = np.where(queues.stopped[second], count, share)
        queues.add(np.concatenate((first, second)), np.concatenate((share, count - share)))
        kept[every] = share
    return kept


def spread_two(kept: Ints, counts: Ints, firsts: Workers, seconds: Workers, starts: Ints) -> Workers:
    """The workers of rows in the order of keys: `kept` of each key's are its first worker's, evenly among them."""
    place = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    to_first = np.repeat(kept, counts)
    total = np.repeat(counts, counts)
    first = (place + 1) * to_first // total > place * to_first // total
    return np.where(first, np.repeat(firsts, counts), np.repeat(seconds, counts))
