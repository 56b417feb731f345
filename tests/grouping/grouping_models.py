"""Each grouping as a few lines that handle one event after the other: the product must choose the same workers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, cycle, islice
from math import ceil, exp, floor, log2, sqrt

import numpy as np

from agent.grouping import Assignment, HashRing

Choose = Callable[[int, float], int]


def assignment(workers: int, counter: int = 1) -> Assignment:
    return Assignment(1, counter, tuple(b"worker %d" % number for number in range(workers)))


def zipf(rows: int, keys: int, exponent: float, seed: int) -> np.ndarray:
    """Hashes of keys, the first of which is the most frequent."""
    draw = np.random.default_rng(seed)
    weights = 1 / np.arange(1, keys + 1) ** exponent
    hashes = draw.integers(0, 2**64, keys, dtype=np.uint64)
    return hashes[draw.choice(keys, rows, p=weights / weights.sum())]


class Counts:
    """SpaceSaving: a new key takes the slot of the least and its count + 1."""

    def __init__(self, capacity: int) -> None:
        self.keys: list[int] = []
        self.of: list[float] = []
        self.capacity = capacity

    def add(self, key: int) -> tuple[int, bool]:
        """The key's slot, and whether it is new there."""
        if key in self.keys:
            slot, new = self.keys.index(key), False
        elif len(self.keys) < self.capacity:
            self.keys.append(key)
            self.of.append(0.0)
            slot, new = len(self.keys) - 1, True
        else:
            slot, new = self.of.index(min(self.of)), True
            self.keys[slot] = key
        self.of[slot] += 1
        return slot, new


def least(queued: list[float], workers: list[int]) -> int:
    """Of equal workers the first."""
    chosen = min(workers, key=lambda worker: queued[worker])
    queued[chosen] += 1
    return chosen


def shuffle(ring: HashRing, source: int) -> Choose:
    turns = islice(cycle(range(ring.workers)), int(source * 0.6180339887498949 % 1.0 * ring.workers), None)
    return lambda _key, _now: next(turns)


def fields(ring: HashRing, _source: int) -> Choose:
    return lambda key, _now: int(ring.order(key, 1)[0])


def pkg(ring: HashRing, _source: int) -> Choose:
    sent = [0.0] * ring.workers
    return lambda key, _now: least(sent, list(ring.order(key, 2)))


def wchoices(ring: HashRing, _source: int) -> Choose:
    return choices(ring, lambda _shares, workers: workers)


def dchoices(ring: HashRing, _source: int) -> Choose:
    def parts(shares: list[float], n: int) -> int:
        for d in range(max(2, ceil(shares[0] * n)), n):
            for h in range(1, len(shares) + 1):
                b = n - n * (1 - 1 / n) ** (h * d)
                load = sum(shares[:h]) + (b / n) ** d * sum(shares[h:]) + (b / n) ** 2 * max(0.0, 1 - sum(shares))
                if load > b * (1 / n + 1e-4):
                    break
            else:
                return d
        return n

    return choices(ring, parts)


def choices(ring: HashRing, parts: Callable[[list[float], int], int]) -> Choose:
    counts, total, sent, n = Counts(1000), count(1), [0.0] * ring.workers, ring.workers

    def choose(key: int, _now: float) -> int:
        slot, _ = counts.add(key)
        events = next(total)
        hot = sorted((one / events for one in counts.of if one > events / (5 * n)), reverse=True)
        if counts.of[slot] <= events / (5 * n):
            return least(sent, list(ring.order(key, 2)))
        d = parts(hot, n)
        return least(sent, list(range(n)) if d == n else list(ring.order(key, d)))

    return choose


def published(ring: HashRing, _source: int) -> Choose:
    n, counts, held = ring.workers, Counts(1000), [0] * 1000
    queued, state = [0.0] * n, {"total": 0.0, "events": 0, "then": 0.0}

    def choose(key: int, now: float) -> int:
        while now - state["then"] >= 10:
            state["then"] += 10
            queued[:] = [max(0.0, one - 10 / 0.5) for one in queued]
        slot, new = counts.add(key)
        held[slot] *= not new
        state["total"] += 1
        d = 2
        if counts.of[slot] > state["total"] / (4 * n):
            d = max(2, int(n / 2 ** floor(log2(max(counts.of) / counts.of[slot]))), held[slot])
            held[slot] = d
        state["events"] += 1
        if state["events"] % 1000 == 0:
            counts.of = [one * 0.2 for one in counts.of]
            state["total"] *= 0.2
        return least(queued, list(ring.order(key, d)))

    return choose


def fish(ring: HashRing, source: int) -> Choose:
    del source
    n, lasting, held = ring.workers, Counts(1000), [0] * 1000
    recent, burst, totals, queued = [0.0] * 1000, [0.0] * 1000, [0.0] * 3, [0.0] * n
    slot_seconds, state = 0.5 / 0.25, {"events": 0, "then": 0.0}

    def decay(factors: tuple[float, float, float]) -> None:
        lasting.of = [one * factors[0] for one in lasting.of]
        recent[:], burst[:] = [one * factors[1] for one in recent], [one * factors[2] for one in burst]
        totals[:] = [total * factor for total, factor in zip(totals, factors, strict=True)]

    def choose(key: int, now: float) -> int:
        passed = (now - state["then"]) / slot_seconds if state["events"] else 1 / n  # nobody has told how fast it is
        queued[:] = [max(-4.0, one - passed) for one in queued]
        state["then"] = now
        decay((0.9, 0.2, 1.0) if state["events"] and state["events"] % 1000 == 0 else (1.0, 1.0, 1.0))
        decay((1.0, 1.0, exp(-1 / 200)))
        state["events"] += 1
        slot, new = lasting.add(key)
        if new:
            recent[slot] = burst[slot] = held[slot] = 0
        recent[slot], burst[slot] = recent[slot] + 1, burst[slot] + 1
        totals[:] = [total + 1 for total in totals]
        expected = totals[1] / (4 * n)
        if recent[slot] <= expected + 2 * sqrt(expected):
            first, second = ring.order(key, 2)
            chosen = first if (queued[second] - queued[first]) + 0.5 > 0 else second
            queued[chosen] += 1
            return int(chosen)
        share = lasting.of[slot] / max(totals[0], 1000)
        counted = ((recent[slot], totals[1]), (burst[slot], totals[2]))
        now_sure = max(max(own - 2 * sqrt(own), 0.0) / total for own, total in counted)
        d = n if max(share, now_sure) >= 0.05 else ceil(n * max(6 * share, 11 * now_sure)) + 1
        held[slot] = min(n, max(held[slot], d))
        return least(queued, list(ring.order(key, held[slot])))

    return choose


MODELS: dict[str, Callable[[HashRing, int], Choose]] = {
    "fish": fish,
    "shuffle": shuffle,
    "fields": fields,
    "pkg": pkg,
    "dchoices": dchoices,
    "wchoices": wchoices,
    "published": published,
}
