"""Tells of the open panes of a consumer as they are so far, and has those that another agent began go on.

The reader of another job's results can be succeeded in the midst of a pane: what it had read of that comes as a run of
the pane, which is joined with the run that is sealed of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.panes import END, SELF, Counted, Run, add_counted


class BegunPanes:
    """The panes of one consumer that another agent has begun, a run each."""

    def __init__(self, function: JobFunction) -> None:
        self._function = function
        self._runs: list[Run] = []

    def restore(self, runs: Iterable[Run]) -> None:
        """Takes what has been read of panes, in their order."""
        self._runs = list(runs)

    def joined(self, run: Run) -> Run:
        """A sealed run with what was read of its panes before; that is not kept any longer."""
        if not self._runs:
            return run
        mine = [one for one in self._runs if run.after < one.upto <= run.upto]
        self._runs = [one for one in self._runs if one.upto > run.upto]
        return self._together(run, mine)

    def with_begun(self, run: Run) -> Run:
        """A run of a pane that is not sealed, with what was read of it before."""
        return self._together(run, [one for one in self._runs if one.upto == run.upto])

    def _together(self, run: Run, others: list[Run]) -> Run:
        if not others:
            return run
        state = self._function.combine([run.state, *(one.state for one in others)])
        counted = add_counted([run.counted, *(one.counted for one in others)])
        partial = SELF if run.partial or any(one.partial for one in others) else 0
        return replace(run, contributors=SELF, state=state, counted=counted, partial=partial, encoding=None)

    @property
    def panes(self) -> set[int]:
        """The panes that another agent has begun."""
        return {one.upto for one in self._runs}


class OpenStore(Protocol):
    """An operator, with the panes that it has not sealed."""

    @property
    def is_sealing(self) -> bool: ...
    def counted(self) -> Counted: ...
    def readable(self, pane: int) -> tuple[pl.DataFrame, bool]: ...


class OpenConsumer(Protocol):
    """A consumer of an operator."""

    begun: BegunPanes
    function: JobFunction
    frontier: int

    @property
    def operator(self) -> OpenStore: ...


def so_far(consumer: OpenConsumer) -> list[Run] | None:
    """The panes of a consumer that are not sealed, a run each; None while some are being sealed. O(groups)."""
    return None if consumer.operator.is_sealing else list(_runs(consumer))


def _runs(consumer: OpenConsumer) -> Iterator[Run]:
    operator, after = consumer.operator, consumer.frontier
    counted = operator.counted()
    for pane in sorted(pane for pane in counted.keys() | consumer.begun.panes if after < pane < END):
        state, is_whole = operator.readable(pane) if pane in counted else (consumer.function.empty_state, True)
        own = {pane: counted[pane]} if pane in counted else {}
        yield consumer.begun.with_begun(Run(after, pane, SELF, state, own, 0 if is_whole else SELF))
        after = pane
