"""Deals the events of keys to workers by their waits, many keys at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Workers = npt.NDArray[np.int16]
_STOPPED = 1e9
"""Seconds that a stopped worker's wait is taken for longer: it is chosen where all are stopped only."""
_SLOWEST = 1e-12
"""Events a second of what is no worker, where something is divided by it."""
_NO_WORKER = 1e15
"""Wait of the places of a key's row of workers that are not used."""


@dataclass(slots=True)
class Queues:
    """Waits of all workers, which grow as events are dealt; an event adds its worker's slot.

    Stopped ones are chosen last. `phases` are parts of a turn by which this source is ahead of others at each worker.
    """

    waits: Floats
    slots: Floats
    stopped: npt.NDArray[np.bool_]
    phases: Floats | None = None

    def add(self, workers: npt.NDArray[np.integer], counts: Floats | Ints) -> None:
        """Lengthens the queues of workers, each as often as it is named."""
        self.waits += np.bincount(workers, counts, len(self.waits)) * self.slots


def deal_two(counts: Ints, firsts: Workers, seconds: Workers, queues: Queues, piece: int, slack: float) -> Ints:
    """Deals each key's events to its first worker, and to the second where the first is `slack` slots worse.

    Keys choose in their order, those of about `piece` events at the same time; those with a stopped worker stay with
    the first. Gives how many of each key's events are the first worker's.
    """
    kept = np.empty(len(counts), np.int64)
    ends = np.cumsum(counts)
    uniform = bool((queues.slots == queues.slots[0]).all())
    stays = queues.stopped[firsts] | queues.stopped[seconds] if queues.stopped.any() else None
    begin = 0
    while begin < len(counts):
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] - counts[begin] + piece, side="right")))
        count, first, second = counts[begin:end], firsts[begin:end], seconds[begin:end]
        lead = queues.waits[second] - queues.waits[first]
        if uniform:
            wanted = np.ceil((lead / queues.slots[0] + (count - 1 + slack)) * 0.5)
        else:
            own, other = queues.slots[first], queues.slots[second]
            wanted = np.ceil((lead + (count - 1) * other + slack * own) / (own + other))
        share = np.minimum(np.maximum(wanted, 0), count)
        if stays is not None:
            share = np.where(stays[begin:end], count, share)
        queues.add(np.concatenate((first, second)), np.concatenate((share, count - share)))
        kept[begin:end] = share
        begin = end
    return kept


def spread_two(kept: Ints, counts: Ints, firsts: Workers, seconds: Workers) -> Workers:
    """The workers of rows in the order of keys: `kept` of each key's are its first worker's, evenly among them."""
    ends = np.cumsum(counts)
    place = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    to_first = np.repeat(kept, counts)
    total = np.repeat(counts, counts)
    first = (place + 1) * to_first // total > place * to_first // total
    return np.where(first, np.repeat(firsts, counts), np.repeat(seconds, counts))


def deal_many(counts: Ints, parts: Ints, orders: Workers, queues: Queues, batch: int) -> Workers:
    """Deals each key's events to its first `parts` workers, where they wait least, and spreads them evenly.

    Those with few workers choose first, keys with `batch` workers together at the same time. Gives the workers of all
    events, key by key.
    """
    by_parts = np.argsort(parts, kind="stable")
    reach = np.cumsum(parts[by_parts])
    later = _STOPPED * queues.stopped
    waits = np.append(queues.waits + later, _NO_WORKER)
    rates = np.append(1 / queues.slots, 0.0)
    found: list[tuple[Ints, Workers, Ints]] = []
    begin = 0
    while begin < len(counts):
        end = max(begin + 1, int(np.searchsorted(reach, reach[begin] - parts[by_parts[begin]] + batch, side="right")))
        keys = by_parts[begin:end]
        most = int(parts[keys[-1]])
        workers = orders[keys, :most]
        if parts[keys[0]] < most:
            workers = np.where(np.arange(most) < parts[keys, None], workers, len(rates) - 1)
        dealt = level(counts[keys], waits[workers], rates[workers])
        rows, columns = np.nonzero(dealt)
        amounts, chosen = dealt[rows, columns], workers[rows, columns]
        waits[:-1] += np.bincount(chosen, amounts, len(rates) - 1) * queues.slots
        found.append((keys[rows], chosen, amounts))
        begin = end
    queues.waits = waits[:-1] - later
    keys, chosen, amounts = (np.concatenate(column) for column in zip(*found, strict=True))
    return _spread(keys, chosen, amounts, 0.0 if queues.phases is None else queues.phases[chosen])


def level(counts: Ints, waits: Floats, rates: Floats) -> Ints:
    """For each row of workers how many of `counts` events each takes, if every one goes where the wait is least; of
    workers that are unequally fast, one may take an event more or less.

    `rates` are events a second; of equal waits the first is taken. O(rows · workers · log workers).
    """
    starts = np.arange(0, waits.size, waits.shape[1])[:, None]
    order = np.argsort(waits, axis=1, kind="stable") + starts
    waits, rates = waits.ravel()[order], rates.ravel()[order]
    levels = (np.cumsum(waits * rates, axis=1) + counts[:, None]) / np.cumsum(rates, axis=1)
    used = (waits < levels).sum(axis=1)
    most = int(used.max())
    waits, rates, order = waits[:, :most], rates[:, :most], order[:, :most]
    reached = levels[np.arange(len(counts)), np.maximum(used - 1, 0)][:, None]
    taken = np.maximum(np.floor((reached - waits) * rates), 0.0)
    missing = counts - taken.sum(axis=1)
    following = np.where(waits < reached, waits + taken / np.maximum(rates, _SLOWEST), np.inf)
    nearest = np.argsort(following, axis=1, kind="stable") + starts // levels.shape[1] * most
    taken.ravel()[nearest] += np.arange(most) < missing[:, None]
    dealt = np.zeros(levels.shape, np.int64)
    dealt.ravel()[order] = taken
    return dealt


def _spread(keys: Ints, workers: Workers, amounts: Ints, phases: Floats | float) -> Workers:
    """Workers of events, key by key, each worker's evenly among the key's."""
    ends = np.cumsum(amounts)
    first = keys + (phases - (ends - amounts)) / amounts
    along = np.repeat(first, amounts) + np.arange(ends[-1]) / np.repeat(amounts, amounts)
    return np.repeat(workers, amounts)[np.argsort(along, kind="stable")]
