"""Deals the events of keys to workers by their waits, many keys at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Workers = npt.NDArray[np.integer]
_STOPPED = 1e9
"""Seconds that a stopped worker's wait is taken for longer: it is chosen where all are stopped only."""
_SLOWEST = 1e-12
"""Events a second of what is no worker, where something is divided by it."""
_NO_WORKER = 1e15
"""Wait of the places of a key's row of workers that are not used."""
_ONE = np.ones(1, np.int64)


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
        end = max(begin + 1, int(ends.searchsorted(ends[begin] - counts[begin] + piece, side="right")))
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
    ends = counts.cumsum()
    if ends[-1] == len(counts):
        return np.where(kept, firsts, seconds)
    to_first = (np.arange(ends[-1]) - (ends - counts).repeat(counts)) * kept.repeat(counts)
    total = counts.repeat(counts)
    first = (to_first + kept.repeat(counts)) // total > to_first // total
    return np.where(first, firsts.repeat(counts), seconds.repeat(counts))


def deal_many(counts: Ints, parts: Ints, orders: Workers, queues: Queues, batch: int) -> Workers:
    """Deals each key's events to its first `parts` workers, where they wait least, and spreads them evenly.

    Those with few workers choose first, keys with `batch` workers together at the same time. Gives the workers of all
    events, key by key.
    """
    by_parts = parts.argsort(kind="stable")
    sorted_parts = parts[by_parts].tolist()
    orders = orders.astype(np.intp)
    later = _STOPPED * queues.stopped
    waits = np.append(queues.waits + later, _NO_WORKER)
    slots = queues.slots
    rates = np.append(1 / slots, 0.0)
    found: list[tuple[Ints, Workers, Ints]] = []
    for begin, end in _batches(sorted_parts, batch):
        keys, most = by_parts[begin:end], sorted_parts[end - 1]
        if end == begin + 1:
            workers = orders[keys[0], :most]
            columns, amounts = level_one(int(counts[keys[0]]), waits.take(workers), rates.take(workers))
            chosen = workers[columns]
            waits[chosen] += amounts * slots[chosen]
            found.append((keys.repeat(len(chosen)), chosen, amounts))
            continue
        workers = orders[keys, :most]
        if sorted_parts[begin] < most:
            workers[np.arange(most) >= parts[keys, None]] = len(slots)
        dealt = level(counts[keys], waits.take(workers), rates.take(workers))
        places = dealt.ravel().nonzero()[0]
        amounts, chosen = dealt.ravel().take(places), workers.ravel().take(places)
        waits[:-1] += np.bincount(chosen, amounts, len(slots)) * slots
        found.append((keys.take(places // most), chosen, amounts))
    queues.waits = waits[:-1] - later
    keys, chosen, amounts = (np.concatenate(column) for column in zip(*found, strict=True))
    return _spread(keys, chosen, amounts, 0.0 if queues.phases is None else queues.phases[chosen])


def _batches(parts: list[int], batch: int) -> Iterator[tuple[int, int]]:
    """Yields the bounds of runs of keys with `batch` workers together, or of one key with more."""
    begin = reach = 0
    for place, own in enumerate(parts):
        if reach + own > batch and place > begin:
            yield begin, place
            begin, reach = place, 0
        reach += own
    yield begin, len(parts)


def level_one(count: int, waits: Floats, rates: Floats) -> tuple[Ints, Ints]:
    """Deals as `level` does, to a single row: the places of the workers that take events, ascending, and how many."""
    if count == 1:
        return np.array([waits.argmin()]), _ONE
    order = waits.argsort(kind="stable")
    waits, rates = waits[order], rates[order]
    levels = (waits * rates).cumsum()
    levels += count
    levels /= rates.cumsum()
    used = int(np.count_nonzero(waits < levels))
    waits, rates = waits[:used], rates[:used]
    taken = np.maximum(np.floor((levels[used - 1] - waits) * rates), 0.0)
    missing = count - int(taken.sum())
    if missing > 0:
        following = waits + taken / rates
        taken[following.argsort(kind="stable")[:missing]] += 1
    dealt = np.zeros(len(order), np.int64)
    dealt[order[:used]] = taken
    columns = dealt.nonzero()[0]
    return columns, dealt[columns]


def level(counts: Ints, waits: Floats, rates: Floats) -> Ints:
    """For each row of workers how many of `counts` events each takes, if every one goes where the wait is least; of
    workers that are unequally fast, one may take an event more or less.

    `rates` are events a second; of equal waits the first is taken. O(rows · workers · log workers).
    """
    if counts.max() == 1:
        alone = np.zeros(waits.shape, np.int64)
        alone[np.arange(len(counts)), waits.argmin(axis=1)] = 1
        return alone
    starts = np.arange(0, waits.size, waits.shape[1])[:, None]
    order = waits.argsort(axis=1, kind="stable") + starts
    waits, rates = waits.ravel()[order], rates.ravel()[order]
    levels = ((waits * rates).cumsum(axis=1) + counts[:, None]) / rates.cumsum(axis=1)
    used = (waits < levels).sum(axis=1, keepdims=True)
    most = int(used.max())
    waits, rates, order = waits[:, :most], rates[:, :most], order[:, :most]
    reached = levels.ravel()[starts + used - 1]
    taken = np.maximum(np.floor((reached - waits) * rates), 0.0)
    missing = counts[:, None] - taken.sum(axis=1, keepdims=True)
    following = np.where(waits < reached, waits + taken / np.maximum(rates, _SLOWEST), np.inf)
    nearest = following.argsort(axis=1, kind="stable") + np.arange(0, taken.size, most)[:, None]
    taken.ravel()[nearest] += np.arange(most) < missing
    dealt = np.zeros(levels.shape, np.int64)
    dealt.ravel()[order] = taken
    return dealt


def _spread(keys: Ints, workers: Workers, amounts: Ints, phases: Floats | float) -> Workers:
    """Workers of events, key by key, each worker's evenly among the key's."""
    ends = amounts.cumsum()
    first = keys + (phases - (ends - amounts)) / amounts
    along = first.repeat(amounts) + np.arange(ends[-1]) / amounts.repeat(amounts)
    return workers.repeat(amounts)[along.argsort(kind="stable")]
