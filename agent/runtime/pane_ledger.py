"""What was counted in each of the panes that open windows are made of, and who is in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import add, sub
from typing import NamedTuple

from agent.runtime.panes import Counted, Counts, Run


class Members(NamedTuple):
    """Of a run of panes: the agents that are in any of them, and those that are whole in all."""

    contributors: int
    whole: int


@dataclass(slots=True)
class _Stretch:
    """The panes in (after, upto] with the same agents."""

    after: int
    upto: int
    contributors: int
    partial: int


class PaneLedger:
    """Of panes that come in order. Sums are differences of running sums: O(log panes), however long windows are."""

    def __init__(self) -> None:
        self._panes: list[int] = []
        self._sums: list[tuple[int, ...]] = [tuple(Counts())]
        self._stretches: list[_Stretch] = []

    def add(self, run: Run, counted: Counted) -> None:
        """The panes of the next run, and what was counted in those that anything was."""
        for pane in sorted(counted):
            self._panes.append(pane)
            self._sums.append(tuple(map(add, self._sums[-1], counted[pane])))
        last = self._stretches[-1] if self._stretches else None
        goes_on = last is not None and last.upto == run.after
        if last is not None and goes_on and (last.contributors, last.partial) == (run.contributors, run.partial):
            last.upto = run.upto
        else:
            self._stretches.append(_Stretch(run.after, run.upto, run.contributors, run.partial))

    def counted(self, first: int, last: int) -> Counts:
        """What was counted in the panes from one to another."""
        begin, end = bisect_left(self._panes, first), bisect_right(self._panes, last)
        return Counts(*map(sub, self._sums[end], self._sums[begin]))

    def members(self, first: int, last: int) -> Members:
        """Who is in the panes from one to another. Panes that nothing is known of have nobody in them."""
        inside = [one for one in self._stretches if one.after < last and one.upto >= first]
        if not inside:
            return Members(0, 0)
        contributors, whole = 0, -1
        for one in inside:
            contributors |= one.contributors
            whole &= one.contributors & ~one.partial
        is_covered = inside[0].after < first and inside[-1].upto >= last
        return Members(contributors, whole if is_covered else 0)

    def forget(self, before: int) -> None:
        """Frees panes that are older, once there are many of them."""
        self._stretches = [one for one in self._stretches if one.upto >= before]
        old = bisect_left(self._panes, before)
        if 2 * old > len(self._panes):
            del self._panes[:old], self._sums[:old]
