"""Contains what the data of one job raises, or how long it takes: that job ends, and all others of the agent go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import TracebackType

import polars as pl

from agent.runtime.model.meters import WorkMeter
from agent.runtime.model.work_budget import OverBudgetError, WorkBudgets
from overlay import Id

EndJob = Callable[[Id, BaseException, float], bool]
"""Ends an agent's part in a job for what it has raised; False if it has none."""
Clock = Callable[[], float]
"""Seconds of work that the process has done."""


class JobContainment:
    """Ends a job whose work raises. `tell` gets each such job with the exception. `clock` is the shell's: where it
    stands still, work is never too long.
    """

    def __init__(self, tell: Callable[[Id, BaseException], None], clock: Clock) -> None:
        self._tell = tell
        self.clock = clock
        self._budgets = WorkBudgets()
        self._ends: tuple[EndJob, ...] = ()

    def on_raised(self, *ends: EndJob) -> None:
        """Calls these in order when a job's work has raised, until one has had a part in the job."""
        self._ends = ends

    def around(self, app_id: Id, now: float) -> AbstractContextManager[None, bool]:
        """Runs a block that works for one job.

        Whatever it raises, the state of that job cannot be trusted any more: where the master is here the job ends
        everywhere; elsewhere this agent works for it no more, and is missing from its windows.
        """
        return _Block(self._end, app_id, now)

    @contextmanager
    def evaluating(self, jobs: Sequence[Id], rows: int, now: float) -> Iterator[None]:
        """Runs a block that evaluates events, `rows` of them new, for these jobs together. What it raises ends them
        all; a job that goes over its budget of work ends everywhere.
        """
        begun = self.clock()
        try:
            yield
        except (Exception, pl.exceptions.PanicException) as error:
            for app_id in jobs:
                self._end(app_id, error, now)
            return
        work_s = self.clock() - begun
        for app_id in jobs:
            with self.around(app_id, now):
                self._budgets.charge(app_id, work_s, rows, now)

    def measure(self, app_id: Id, meter: WorkMeter) -> None:
        """Has a meter tell of the work on a job's events from now on."""
        meter.clock, meter.counted = self.clock, partial(self._budgets.take, app_id)

    def _end(self, app_id: Id, error: BaseException, now: float) -> None:
        self._tell(app_id, error)
        self.forget(app_id, now)
        any(end(app_id, error, now) for end in self._ends)

    def forget(self, app_id: Id, _now: float) -> None:
        """Forgets the work of a job that is over."""
        self._budgets.close(app_id)


class _Block:
    """Work for one job: every message is some, and a generator would take four times as long."""

    __slots__ = ("_app_id", "_end", "_now")

    def __init__(self, end: Callable[[Id, BaseException, float], None], app_id: Id, now: float) -> None:
        self._end, self._app_id, self._now = end, app_id, now

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, (Exception, pl.exceptions.PanicException)):
            return False
        self._end(self._app_id, error, self._now)
        return True


def reason_of(error: BaseException) -> str:
    """The reason for people why a job ends."""
    return str(error) if isinstance(error, OverBudgetError) else f"{type(error).__name__}: {error}"
