"""Keeps the positions from which a feed would have to be read again, if its agent were started anew now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.runtime.ingest.feed_memory import FeedNeeds, JobMemory, JobTerm
from agent.sources.file.finding import Identity
from agent.sources.file.followed_file import ReadUpTo
from agent.sources.file.rotation import is_compressed

MARKS_MAX = 64
"""Upper bound on the positions kept of a feed; of more, every second one is dropped."""

Files = tuple[ReadUpTo, ...]


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A position in a stream's files. Reading from there yields every event from `complete_from_ms` on.

    `jobs`: those that need it, with the time (epoch ms) at which each of them begins. `exact`: see `JobMemory`.
    """

    stream: str
    files: Files
    complete_from_ms: int
    jobs: Mapping[JobTerm, int]
    exact: bool = False

    def memories(self) -> dict[JobTerm, JobMemory]:
        """The memory of each job, for the agent's core."""
        complete = self.complete_from_ms
        return {job: JobMemory(max(complete, begins), self.exact) for job, begins in self.jobs.items()}


@dataclass(frozen=True, slots=True)
class _Mark:
    files: Files
    complete_from_ms: int


class ReadingLedger:
    """Positions of one feed of a stream, the oldest first. They may be older than needed, never younger."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._marks: list[_Mark] = []

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
        self._marks.append(_Mark(files, complete_from_ms))
        if len(self._marks) > MARKS_MAX:
            self._marks = [*self._marks[:-1:2], self._marks[-1]]

    def needed(self, needs: FeedNeeds) -> FeedPosition | None:
        """The last position from which jobs get all that they need, if there is any. Forgets those before it."""
        while len(self._marks) > 1 and self._marks[1].complete_from_ms <= needs.from_ms:
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
        mark = _Mark(last.files, max(last.complete_from_ms, wall_ms + 1))
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
    return FeedPosition(positions[0].stream, files, max(one.complete_from_ms for one in positions), jobs, exact)
