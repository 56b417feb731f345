"""Keeps what the reader of another job's results has sealed, as long as open windows need it, for whoever reads on.

Only the master's agent reads another job's results. So nobody else has the panes of its open windows, and they go to
the next master with the descriptor, each before the window with which it is published. What has been read since the
last sealed pane is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import Versions
from agent.runtime.job.local_job import LocalJob
from agent.runtime.messages.jobs import CODEC, SEALED_MAX, Snapshot
from agent.runtime.model.panes import FIRST_PANE, Run
from agent.runtime.reduce.snapshot import run_of
from overlay import WireError

BYTES_MAX = 16 << 20
"""Upper bound on the runs that are kept of a job; the oldest are dropped first, and windows that need them say so."""


class ReaderRuns:
    """The sealed runs of one job's reader, as encoded snapshots by their last pane, ascending."""

    def __init__(self, runs: Iterable[tuple[int, bytes]] = ()) -> None:
        self._runs: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._last = FIRST_PANE
        self.take(runs)

    def take(self, runs: Iterable[tuple[int, bytes]]) -> None:
        """Adds later runs; ignores those that are not later than the last."""
        for upto, encoded in runs:
            if upto > self._last:
                self._runs.append((upto, encoded))
                self._bytes += len(encoded)
                self._last = upto
        while len(self._runs) > SEALED_MAX or self._bytes > BYTES_MAX:
            self._drop_oldest()

    def note(self, local: LocalJob, retention_pane: int) -> None:
        """Adds what the worker here has sealed since, and drops what open windows do not need."""
        for run in () if local.pipeline is None else local.pipeline.after(self._last):
            if run.contributors:
                self.take((one.upto, CODEC.encode(one)) for one in local.snapshots_of(run))
        self.free(retention_pane)

    def free(self, upto: int) -> None:
        """Drops the runs that end with a pane, or before it: no open window needs them."""
        while self._runs and self._runs[0][0] <= upto:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, encoded = self._runs.popleft()
        self._bytes -= len(encoded)

    @property
    def last(self) -> int:
        """The last pane that was sealed, as far as is known here."""
        return self._last

    def after(self, upto: int) -> list[tuple[int, bytes]]:
        """The runs after a pane, in order."""
        return [one for one in self._runs if one[0] > upto]

    def __len__(self) -> int:
        return len(self._runs)


def decoded_runs(runs: Iterable[tuple[int, bytes]], versions: Versions) -> Iterator[tuple[int, Run]]:
    """The runs that an honest reader could have sealed, with the numbers of their versions."""
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
