"""Contains what the data of one job raises: that job ends, and all others of the agent go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import polars as pl

from overlay import Id

EndJob = Callable[[Id, str, float], bool]
"""Ends an agent's part in a job, for a reason; False if it has none."""


class JobContainment:
    """Ends a job whose work raises. `tell` gets each such job with the exception."""

    def __init__(self, tell: Callable[[Id, BaseException], None]) -> None:
        self._tell = tell
        self._ends: tuple[EndJob, ...] = ()

    def on_raised(self, *ends: EndJob) -> None:
        """Calls these in order when a job's work has raised, until one has had a part in the job."""
        self._ends = ends

    @contextmanager
    def around(self, app_id: Id, now: float) -> Iterator[None]:
        """Runs a block that works for one job.

        Whatever it raises, the state of that job cannot be trusted any more: where the master is here the job ends
        everywhere; elsewhere this agent works for it no more, and is missing from its windows.
        """
        try:
            yield
        except (Exception, pl.exceptions.PanicException) as error:
            self._tell(app_id, error)
            any(end(app_id, f"{type(error).__name__}: {error}", now) for end in self._ends)
