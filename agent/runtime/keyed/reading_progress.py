"""Follows how far the events of one feed are safe, so that reading goes on from there after a restart.

Events are numbered in their file, in the order in which it was read: what is read again has the same numbers, and is
dropped where it has been processed.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache

from agent.runtime.durable.records import Place
from agent.runtime.keyed.logical_nodes import NONE_BEGUN, BegunNodes
from agent.runtime.model.epoch import JobTerm

RANK = 1 << 10
"""Channels have their rank among others in their low bits."""
MARKS_MAX = 256
"""Upper bound on the places that are remembered of a feed; of more, every second one is dropped."""


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A place in one stream from which a job's sources go on: all before it is safe.

    `reading`: the shell's own. `counts`: the number of events of each file before it. `incarnation`: in the channels
    that number them. That of no stream has the nodes that were `begun`.
    """

    term: JobTerm
    stream: str
    incarnation: int
    reading: object
    counts: dict[Hashable, int]
    begun: BegunNodes = NONE_BEGUN

    @classmethod
    def of_nodes(cls, term: JobTerm, begun: BegunNodes) -> KeptPlace:
        """Keeps, beside places in streams, what the next process of the agent will have forgotten."""
        return cls(term, "", 0, (), {}, begun)


@dataclass(slots=True)
class _Mark:
    place: Place
    counts: dict[Hashable, int]
    lasts: dict[int, int]


@dataclass(slots=True)
class ReadingProgress:
    """The events of one feed so far, by file, and the places up to which they are safe."""

    incarnation: int
    counts: dict[Hashable, int] = field(default_factory=dict)
    is_kept: bool = True
    """Whether there is a place in store from which these events would be numbered alike."""
    _marks: deque[_Mark] = field(default_factory=deque)
    _safe: _Mark | None = None

    @classmethod
    def after(cls, kept: KeptPlace) -> ReadingProgress:
        """Goes on from a place that was kept."""
        progress = cls(kept.incarnation, dict(kept.counts))
        progress._safe = _Mark(Place(0, kept.reading), dict(kept.counts), {})
        return progress

    def begin(self, reading: object, *, is_kept: bool) -> None:
        """Begins at a place, unless it goes on from one."""
        if self._safe is None and not self._marks:
            self._safe = _Mark(Place(0, reading), dict(self.counts), {})
            self.is_kept = is_kept

    def take(self, file: Hashable, count: int) -> int:
        """Numbers further events of a file; returns the number of the first."""
        first = self.counts.get(file, 0)
        self.counts[file] = first + count
        return first

    def channel(self, source: int, file: Hashable) -> int:
        """The channel of a file's events in a source, which has the rank of the source's own channel."""
        digest = hashlib.blake2b(f"{source}/{self.incarnation}/{file}".encode(), digest_size=8).digest()
        return -1 - (int.from_bytes(digest, "big") >> 11) * RANK - (-1 - source) % RANK

    def note(self, place: Place, lasts: dict[int, int]) -> None:
        """Notes a place, and the last number inserted before it in each channel."""
        self._marks.append(_Mark(place, dict(self.counts), lasts))
        if len(self._marks) > MARKS_MAX:
            marks = list(self._marks)
            for dropped, kept in zip(marks[:-1:2], marks[1::2], strict=False):
                kept.lasts = {**dropped.lasts, **kept.lasts}
            self._marks = deque(marks[1::2] if len(marks) % 2 == 0 else [*marks[1::2], marks[-1]])

    def safe(self, acknowledged: Callable[[int], int]) -> tuple[Place, dict[Hashable, int]] | None:
        """The last place before which everything is safe, and the counts there."""
        asked = cache(acknowledged)
        while self._marks and all(asked(one) >= last for one, last in self._marks[0].lasts.items()):
            self._safe = self._marks.popleft()
        return None if self._safe is None else (self._safe.place, self._safe.counts)
