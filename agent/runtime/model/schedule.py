"""Keeps the times at which each of many things is to be looked at: those that are not due cost nothing."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

ANY_TIME = float("-inf")
Key = TypeVar("Key", bound=Hashable)


class Schedule(Generic[Key]):
    """The next look at each of some keys. What is due stays so until it gets another time. Times are of one clock.

    >>> looks = Schedule[str]()
    >>> looks.set("a", 5.0), looks.set("b", 1.0), looks.set("c", 9.0)
    (None, None, None)
    >>> looks.due(5.0), looks.is_due("c", 5.0)
    (['a', 'b'], False)
    >>> looks.set("c", ANY_TIME), looks.set("a", 20.0), looks.forget("b")
    (None, None, None)
    >>> looks.due(5.0)
    ['c']
    >>> looks.next_after(5.0), looks.next_after(20.0)
    (20.0, None)
    """

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._numbers: dict[Key, int] = {}
        self._due: set[Key] = set()
        self._later: list[tuple[float, int, Key]] = []
        """A heap; entries whose key has another time by now are void."""
        self._count = itertools.count()

    def set(self, key: Key, at: float) -> None:
        """Sets the time of the next look at a key. O(log n)."""
        if self._at.get(key) == at:
            return
        if key not in self._numbers:
            self._numbers[key] = next(self._count)
        self._at[key] = at
        self._due.discard(key)
        if at == ANY_TIME:
            self._due.add(key)
        else:
            heappush(self._later, (at, self._numbers[key], key))
            self._drop_void()

    def forget(self, key: Key) -> None:
        """Looks at a key no more."""
        self._at.pop(key, None)
        self._numbers.pop(key, None)
        self._due.discard(key)

    def is_due(self, key: Key, now: float) -> bool:
        """Whether to look at a key now; one that is not known is always due."""
        return self._at.get(key, ANY_TIME) <= now

    @property
    def has_due(self) -> bool:
        """Whether anything is to be looked at any time, or was due when that was asked for last. O(1)."""
        return bool(self._due)

    def due(self, now: float) -> list[Key]:
        """The keys to look at now, in the order in which they first came. O(those that are due · log n)."""
        self._take_due(now)
        return sorted(self._due, key=self._numbers.__getitem__)

    def next_after(self, now: float) -> float | None:
        """The time after `now` at which a key is to be looked at first. O(those that have become due · log n)."""
        self._take_due(now)
        while self._later and self._at.get(self._later[0][2]) != self._later[0][0]:
            heappop(self._later)
        return self._later[0][0] if self._later else None

    def _take_due(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            at, _, key = heappop(self._later)
            if self._at.get(key) == at:
                self._due.add(key)

    def _drop_void(self) -> None:
        """Keeps the heap to the size of what is in it."""
        if len(self._later) > 64 + 4 * len(self._at):
            self._later = sorted((at, self._numbers[key], key) for key, at in self._at.items() if key not in self._due)
