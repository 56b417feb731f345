"""Keeps what the reader of another job's results has read, as long as windows need it, for whoever reads on.

Only the master's agent reads another job's results. So nobody else has the panes of its open windows, and they go to
the next master with the descriptor: those that are sealed before the window with which they are published, those that
are not once in a while. What has been read since is read again, of what the other job's master has kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import Versions
from agent.runtime.job.local_job import LocalJob
from agent.runtime.messages.jobs import CODEC, Snapshot
from agent.runtime.messages.reading import NO_RUNS, SEALED_MAX, GivenRuns
from agent.runtime.model.panes import FIRST_PANE, Run
from agent.runtime.reduce.snapshot import run_of
from overlay import WireError

BYTES_MAX = 16 << 20
"""Upper bound on the sealed runs that are kept of a job; the oldest are dropped first, and windows that need them say
so."""
OPEN_BYTES_MAX = 8 << 20
"""Upper bound on the panes that are not sealed; larger ones are read again as far as they can be."""


class ReadMark(NamedTuple):
    """The last pane that a reader has sealed, and the pane of the result up to which its open ones are known."""

    sealed_upto: int = FIRST_PANE
    read_upto: int = FIRST_PANE


NOTHING_READ = ReadMark()


class ReaderRuns:
    """The runs of one job's reader, as encoded snapshots by their last pane, ascending."""

    def __init__(self, given: GivenRuns = NO_RUNS) -> None:
        self._sealed: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._freed = FIRST_PANE
        self._opened: tuple[tuple[int, bytes], ...] = ()
        self.mark = NOTHING_READ
        """As far as anything is known here."""
        self.take(given)

    def take(self, given: GivenRuns) -> None:
        """Takes what is new."""
        self._add(given.sealed)
        self._free(given.freed)
        if given.read_upto > self.mark.read_upto:
            self._opened, self.mark = given.opened, self.mark._replace(read_upto=given.read_upto)

    def _add(self, runs: Iterable[tuple[int, bytes]]) -> None:
        for upto, encoded in runs:
            if upto > self.mark.sealed_upto:
                self._sealed.append((upto, encoded))
                self._bytes += len(encoded)
                self.mark = self.mark._replace(sealed_upto=upto)
        while len(self._sealed) > SEALED_MAX or self._bytes > BYTES_MAX:
            self._drop_oldest()

    def note_sealed(self, local: LocalJob, retention_pane: int) -> None:
        """Adds what the worker here has sealed since, and drops what open windows do not need."""
        self._free(retention_pane)
        if local.pipeline is not None:
            self._add(_encoded(local, local.pipeline.after(max(self.mark.sealed_upto, retention_pane))))

    def note_opened(self, local: LocalJob, runs: Iterable[Run], read_upto: int) -> bool:
        """Notes the panes that are not sealed here, as of the other job's result of a pane; whether they are small
        enough."""
        opened = _encoded(local, runs)
        if sum(len(encoded) for _, encoded in opened) > OPEN_BYTES_MAX:
            return False
        self._opened, self.mark = tuple(opened), self.mark._replace(read_upto=read_upto)
        return True

    def _free(self, upto: int) -> None:
        """Drops the runs that end with a pane, or before it: no open window needs them."""
        self._freed = max(self._freed, upto)
        while self._sealed and self._sealed[0][0] <= upto:
            self._drop_oldest()
        self._opened = tuple(one for one in self._opened if one[0] > upto)

    def _drop_oldest(self) -> None:
        _, encoded = self._sealed.popleft()
        self._bytes -= len(encoded)

    def given(self, mark: ReadMark = NOTHING_READ) -> GivenRuns:
        """The runs beyond a mark."""
        sealed = tuple(one for one in self._sealed if one[0] > mark.sealed_upto)
        opened = self._opened if mark.read_upto < self.mark.read_upto else ()
        return GivenRuns(sealed, self._freed, opened, self.mark.read_upto)


def in_records(given: GivenRuns) -> Iterator[GivenRuns]:
    """The runs as several that add up to the same, each small enough for a record of a disk: the last has none, but
    says how far they go."""
    piece: list[tuple[int, bytes]] = []
    size = 0
    for one in given.sealed:
        if piece and size + len(one[1]) > OPEN_BYTES_MAX:
            yield GivenRuns(tuple(piece))
            piece, size = [], 0
        piece.append(one)
        size += len(one[1])
    if piece:
        yield GivenRuns(tuple(piece))
    if given.opened:
        yield GivenRuns(opened=given.opened, read_upto=given.read_upto)
    yield GivenRuns(freed=given.freed, read_upto=given.read_upto)


def _encoded(local: LocalJob, runs: Iterable[Run]) -> list[tuple[int, bytes]]:
    return [(one.upto, CODEC.encode(one)) for run in runs if run.contributors for one in local.snapshots_of(run)]


def decoded_runs(runs: Iterable[tuple[int, bytes]], versions: Versions) -> Iterator[tuple[int, Run]]:
    """The runs that an honest reader could have made, with the numbers of their versions."""
    for _, encoded in runs:
        try:
            message = CODEC.decode(encoded, BYTES_MAX)
        except WireError:
            continue
        if not isinstance(message, Snapshot):
            continue
        run = run_of(message, versions, TreePlacement(1), None)
        if run is not None and run.contributors:
            yield message.version, run
