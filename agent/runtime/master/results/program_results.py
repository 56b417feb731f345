"""Has a job's program make the results of its own aggregates, run by run, before the master publishes them.

A run's windows are made first; then the program folds what is in each of them, which takes its time; only then is the
run published. Nobody learns of the run before: should the master fail meanwhile, the next one makes the same windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from agent.runtime.function.changing_windows import WindowUpdate
from agent.runtime.function.result import WindowResult
from agent.runtime.job.local_job import LocalJob
from agent.runtime.master.owners.owned_windows import OwnedWindows
from agent.runtime.master.state import JobState
from agent.runtime.model.panes import Run

Windows = list[WindowUpdate]


@dataclass(slots=True)
class _Made:
    """A run whose results are made. `windows` and `settled`: of windows of several panes."""

    run: Run
    windows: Windows | None
    settled: dict[int, WindowResult]
    lacking: int


class ProgramResults:
    """The results of the run that a master publishes next."""

    def __init__(self, state: JobState, local: LocalJob, owned: OwnedWindows) -> None:
        self._state, self._local, self._owned = state, local, owned
        self._made: _Made | None = None
        self._of: Run | None = None

    def pieces(self, runs: Iterable[Run]) -> Iterator[list[Run]]:
        """Runs as they are published together: each alone if the program has a part in it."""
        together: list[Run] = []
        for run in runs:
            if not self._folds(run):
                together.append(run)
                continue
            if together:
                yield together
            yield [run]
            together = []
        if together:
            yield together

    def _folds(self, run: Run) -> bool:
        return self._state.versions.at(run.upto).function.folds

    def are_made(self, runs: Sequence[Run]) -> bool:
        """Whether the windows of the next runs are there, with their results; has them made if not."""
        if self._of is not runs[0]:
            if not self._owned.are_made(runs):
                return False
            if not self._folds(runs[0]):
                return True
            self._begin(runs[0])
        self._local.folds.pump()
        return self._made is not None and self._made.lacking == 0

    def _begin(self, run: Run) -> None:
        self._of = run
        function = self._state.versions.at(run.upto).function
        owned = self._owned.take_windows(run)
        settled = self._state.settled(run)
        windows = None if function.is_of_panes else list(self._state.windows_of(run, owned))
        frames = [run.state] if windows is None else [one.state for one in windows]
        made = self._made = _Made(run, windows, settled, len(frames))
        for number, frame in enumerate(frames):
            self._local.folds.fold(self, function, frame, _Taker(made, number), finishes=True)

    def publish(self, run: Run) -> dict[int, WindowResult]:
        """Publishes a run, with the results that were made of it."""
        if self._made is None or self._of is not run:
            return self._state.publish(run, self._owned.take_windows(run))
        made, self._made, self._of = self._made, None, None
        return made.settled | self._state.publish(made.run, windows=made.windows)


@dataclass(frozen=True, slots=True)
class _Taker:
    """Takes the results of one window, or of all those that are a pane each."""

    made: _Made
    number: int

    def __call__(self, state: pl.DataFrame) -> None:
        made = self.made
        if made.windows is None:
            made.run = replace(made.run, state=state)
        else:
            made.windows[self.number] = made.windows[self.number]._replace(state=state)
        made.lacking -= 1
