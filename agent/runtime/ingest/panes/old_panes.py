"""Has sealed panes of older versions go with the runs of the version in force, as long as windows need them.

Each older version whose windows go on is still counted, by an operator of its own. A run of the version in force waits
until the old panes that end with it are sealed as well, and carries them from then on: to the disk, to those who hold
copies, and up the trees.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import polars as pl

from agent.runtime.durable.records import SealedAt
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Beside
from agent.runtime.model.panes import FIRST_PANE, SELF, OldPanes, Run, add_counted


class SealedOldPanes:
    """The sealed panes of one older version, until they are committed: they may have to go with other runs again, when
    a further version begins."""

    def __init__(self) -> None:
        self.frontier = FIRST_PANE
        """The last pane that is sealed."""
        self.lacks_some = False
        """Whether events are missing in all of them."""
        self._runs: deque[Run] = deque()

    def add(self, run: Run) -> None:
        """Takes a run of the older version, which follows the last one."""
        self.frontier = run.upto
        self._runs.append(run)

    def of(self, run: Run, beside: Beside) -> OldPanes | None:
        """The old panes that go with a run; None if there are none of which this agent has events. O(runs)."""
        after, upto = beside.frontier(run.after), beside.frontier(run.upto)
        inside = [one.within(after, upto) for one in self._runs if one.after < upto and one.upto > after]
        parts = [part for part in inside if part.contributors]
        pane_ms, carrier_ms = beside.pane_ms, beside.main.function.pane_ms
        held = sum(part.upto // pane_ms - part.after // pane_ms for part in parts)
        if not held or carrier_ms is None:
            return None
        lacks = self.lacks_some or held < upto // pane_ms - after // pane_ms or any(part.partial for part in parts)
        states = [part.state for part in parts]
        state = states[0] if len(states) == 1 else pl.concat(states)
        counted = add_counted(part.counted for part in parts)
        return OldPanes(
            run.after, run.upto, beside.number, pane_ms, carrier_ms, state, counted, SELF, SELF if lacks else 0
        )

    def forget(self, upto: int) -> None:
        """Frees panes up to one: what they go with is committed."""
        while self._runs and self._runs[0].upto <= upto:
            self._runs.popleft()


class CarriedPanes:
    """The older versions whose panes go with the runs of one consumer, and the runs that wait for these panes."""

    def __init__(self) -> None:
        self.sources: list[tuple[Beside, SealedOldPanes]] = []
        self._waiting: deque[tuple[Run, SealedAt]] = deque()
        self._functions: dict[int, JobFunction] = {}
        self._stale: set[int] = set()
        """Versions that have changed since some of their panes were carried: masters on two sides of a cut may give one
        number to different ones."""

    def carry(self, sources: Iterable[tuple[Beside, SealedOldPanes]]) -> None:
        """Has panes of these older versions go with runs from now on."""
        sources, known = tuple(sources), self._functions
        self._stale |= {
            one.number for one, _ in sources if known.setdefault(one.number, one.old.function) is not one.old.function
        }
        self.sources = [source for source in sources if source[0].number not in self._stale]

    def without_stale(self, run: Run) -> Run:
        """A run as it may leave now."""
        if not self._stale:
            return run
        return run.with_before(old for old in run.before if old.version not in self._stale)

    def add(self, run: Run, at: SealedAt) -> None:
        """Takes the next sealed run, and the moment of its sealing."""
        self._waiting.append((run, at))

    def take_ready(self) -> Iterator[tuple[Run, SealedAt]]:
        """Yields the runs that need not wait any longer, with what they carry."""
        while self._waiting and self._is_ready(self._waiting[0][0]):
            run, at = self._waiting.popleft()
            yield self._with_old(run), at

    def _is_ready(self, run: Run) -> bool:
        return not run.contributors or all(
            sealed.frontier >= beside.frontier(run.upto) for beside, sealed in self.sources
        )

    def _with_old(self, run: Run) -> Run:
        if not self.sources or not run.contributors:
            return run
        found = (sealed.of(run, beside) for beside, sealed in self.sources)
        return run.with_before(old for old in found if old is not None)

    def cut(self, last_pane: int) -> None:
        """Drops what waits of panes after one."""
        waiting = ((run.within(run.after, last_pane), at) for run, at in self._waiting if run.after < last_pane)
        self._waiting = deque(waiting)

    def forget(self, frontier: int) -> None:
        """Frees what goes with runs up to a pane, which are committed."""
        for beside, sealed in self.sources:
            sealed.forget(beside.frontier(frontier))

    def needed_from_ms(self, upto: int) -> Iterable[int]:
        """The times (epoch ms) from which on events of old panes belong to runs after a pane."""
        for beside, _ in self.sources:
            if (reached := beside.frontier(upto)) < beside.upto:
                yield reached + beside.pane_ms
