"""Keeps the positions from which a feed would have to be read again, if its agent were started anew now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.runtime.durable.feed_memory import FeedNeeds, JobMemory
from agent.runtime.durable.records import Chain, Place
from agent.runtime.model.epoch import JobTerm
from agent.sources.file.finding import Identity
from agent.sources.file.followed_file import ReadUpTo
from agent.sources.file.rotation import is_compressed

MARKS_MAX = 64
"""Upper bound on the positions kept of a feed; of more, every second one is dropped."""

Files = tuple[ReadUpTo, ...]


class ReadTo:
    """A place in the files of a reading: that after a batch, or that before a block which another place follows.

    Few are looked at, so the files are put together when they are asked for. O(files + blocks).
    """

    __slots__ = ("_before", "_files")

    def __init__(self, files: Files | None = None, before: tuple[ReadFrom, ReadTo] | None = None) -> None:
        self._files = files
        self._before = before

    @property
    def files(self) -> Files:
        """The position of each file."""
        if self._files is None:
            offsets: dict[Identity, int] = {}
            place = self
            while place._files is None and place._before is not None:
                block, place = place._before
                offsets.setdefault(block.identity, block.offset)
            self._files = tuple(
                replace(file, offset=offsets.get(file.identity, file.offset)) for file in place._files or ()
            )
        return self._files


class ReadFrom(NamedTuple):
    """The beginning of a block in its file."""

    identity: Identity
    offset: int


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A position in a stream's files. Reading from there yields every event from `complete_from_ms` on.

    `jobs`: those that need it, with the time (epoch ms) at which each of them begins. `exact`: see `JobMemory`.
    `sealed`: the places at which the last runs were sealed.
    """

    stream: str
    files: Files
    complete_from_ms: int
    jobs: Mapping[JobTerm, int]
    exact: bool = False
    sealed: Mapping[Chain, Files] = field(default_factory=dict)

    @property
    def known_files(self) -> Files:
        """The files to be read again; those that are known from sealed runs alone, from their beginnings."""
        known = {file.identity: file for file in self.files}
        for files in self.sealed.values():
            for file in files:
                known.setdefault(file.identity, replace(file, offset=0))
        return tuple(known.values())

    def memories(self) -> dict[JobTerm, JobMemory]:
        """The memory of each job, for the agent's core."""
        complete = self.complete_from_ms
        return {job: JobMemory(max(complete, begins), self.exact, begins) for job, begins in self.jobs.items()}


@dataclass(frozen=True, slots=True)
class _Mark:
    files: Files
    complete_from_ms: int
    number: int


class ReadingLedger:
    """Positions of one feed of a stream, the oldest first. They may be older than needed, never younger."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._marks: list[_Mark] = []
        self._number = 0

    @property
    def is_begun(self) -> bool:
        """Whether any position is noted."""
        return bool(self._marks)

    def note(self, files: Files, complete_from_ms: int) -> None:
        """Notes that what lies before a position is inserted: events of times before `complete_from_ms`."""
        if self._marks:
            complete_from_ms = max(complete_from_ms, self._marks[-1].complete_from_ms)
            if self._marks[-1].complete_from_ms == complete_from_ms:
                self._marks.pop()
        self._marks.append(_Mark(files, complete_from_ms, self._number))
        if len(self._marks) > MARKS_MAX:
            self._marks = [*self._marks[:-1:2], self._marks[-1]]

    def place(self, reading: ReadTo, replayed: frozenset[Chain], file: Identity | None = None) -> Place:
        """The next place, behind a block that is about to be inserted."""
        self._number += 1
        return Place(self._number, reading, replayed, file=file)

    def needed(self, needs: FeedNeeds) -> FeedPosition | None:
        """The last position from which jobs get all that they need, if there is any. Forgets those before it."""
        last = self._number if needs.sealed is None else needs.sealed.number
        while (
            len(self._marks) > 1 and self._marks[1].complete_from_ms <= needs.from_ms and self._marks[1].number <= last
        ):
            del self._marks[0]
        if not self._marks:
            return None
        mark = self._marks[0]
        return self._position(replace(mark, files=(*mark.files, *self._begun_since(mark))), needs)

    def _begun_since(self, mark: _Mark) -> Files:
        """The beginnings of files that came after a mark, so that it is noticed if they go. Compressed ones are of
        others that are known."""
        known = {file.identity for file in mark.files}
        later = (file for file in self._marks[-1].files if file.identity not in known)
        return tuple(replace(file, offset=0) for file in later if not is_compressed(file.path, b""))

    def reached(self, needs: FeedNeeds, wall_ms: int) -> FeedPosition | None:
        """The position of a feed that is over, all of whose events are counted, before jobs seal their last pane."""
        if not self._marks:
            return None
        last = self._marks[-1]
        mark = _Mark(last.files, max(last.complete_from_ms, wall_ms + 1), last.number)
        return self._position(mark, needs, exact=True)

    def _position(self, mark: _Mark, needs: FeedNeeds, *, exact: bool = False) -> FeedPosition:
        return FeedPosition(self._stream, mark.files, mark.complete_from_ms, needs.jobs, exact)


def merged(positions: list[FeedPosition]) -> FeedPosition:
    """One position from which the jobs of several positions in one stream get all that they need."""
    if len(positions) == 1:
        return positions[0]
    first: dict[Identity, ReadUpTo] = {}
    for position in positions:
        for file in position.files:
            known = first.get(file.identity, file)
            first[file.identity] = min(known, file, key=lambda one: one.offset)
    for identity, file in first.items():
        if not all(any(known.identity == identity for known in one.files) for one in positions):
            first[identity] = replace(file, offset=0)  # who does not know it would read it from its beginning
    files = tuple(first.values())
    jobs: dict[JobTerm, int] = {}
    for position in positions:
        for job, begins in position.jobs.items():
            jobs[job] = max(begins, jobs.get(job, begins))
    exact = all(one.exact and set(one.files) == set(files) for one in positions)
    return FeedPosition(positions[0].stream, files, min(one.complete_from_ms for one in positions), jobs, exact)
