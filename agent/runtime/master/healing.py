"""Corrects windows that were published without agents which are back, where windows may be corrected (EMIT CHANGES).

Theory. After a cut each side has published windows without the other's agents; one master remains, and begins an epoch.
It begins further back than the last published pane: with the first window that lacks somebody, for as long as agents
keep such panes (`heal_retention`). They hand in their own runs again, before HAVING and LIMIT, as they do to any next
master, so nobody counts twice whatever the sides had of whom. Windows that have gained agents since are published once
more. Those that have not, or for which agents that were in them are dead or have freed their panes, stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from agent.runtime.function.result import OtherGroups, WindowRows
from agent.runtime.function.versions import InForce, Versions
from agent.runtime.master.windows import ClosedWindow
from agent.runtime.model.incomplete import IncompleteSpan, IncompleteSpans
from agent.runtime.model.panes import END, FIRST_PANE, closed_ms

CORRECTED_MAX = 500
"""Upper bound on windows that are corrected at a time, the newest: they come between two panes, by the millisecond."""
HEAL_DELAY_S = 2.0
"""Time after an agent's return in which others that were away with it may come back as well."""
HEAL_AGAIN_S = 30.0
"""Interval in which a master begins an epoch for agents that are back: all of the job's agents enrol anew."""
Corrected = tuple[ClosedWindow, WindowRows, OtherGroups | None, InForce]
Expected = Callable[[int, int], int]


class Healing:
    """The corrections of a master in its first panes. `history`: the incomplete spans of those before, up to the pane
    `published`.
    """

    def __init__(self, history: Iterable[IncompleteSpan] = (), published: int = FIRST_PANE) -> None:
        self.history = IncompleteSpans(history)
        self._left_out = 0
        self._published = published
        self._ordinary = published
        self._corrected: list[Corrected] = []
        self._enrolled: dict[int, int] = {}
        self._contributing = 0
        self.is_due = False
        """Whether agents are back whose panes would be in further windows."""

    def begin(self, versions: Versions, ordinary: int, heal_ms: int, expected: Expected) -> int:
        """The pane after which to begin; `ordinary` if there is nothing to correct."""
        self._ordinary = ordinary
        if self._published in (FIRST_PANE, END):
            return ordinary
        one = versions.at(self._published + 1)
        if not one.function.grace.corrects:
            return ordinary
        oldest = max(one.after, self._published - heal_ms)
        lacking = [
            span
            for span in self.history.within(oldest, self._published)
            if expected(span.after + 1, span.upto) & ~span.contributors
        ]
        if not lacking:
            return ordinary
        return min(ordinary, max(one.after, one.function.windows_from(lacking[0].after + 1) - 1))

    def awaits(self, after: int, upto: int) -> bool:
        """Whether agents that are missing in these panes are worth waiting for: complete windows are not made again."""
        return upto > self._ordinary or any(True for _ in self.history.within(after, upto))

    def gains(self, stretches: Iterable[tuple[int, int, int]], first: int, last: int, expected: Expected) -> bool:
        """Whether a window that is out has all agents that were in its panes, and others. `stretches`: the bounds of
        panes, with who contributes now."""
        covered, has_gained = first - 1, False
        for after, upto, contributors in stretches:
            if after > covered:
                return False
            upto = min(upto, last)
            for span in self.history.within(covered, upto):
                if covered < span.after and expected(covered + 1, span.after) & ~contributors:
                    return False
                if span.contributors & ~contributors:
                    return False
                has_gained |= bool(contributors & ~span.contributors)
                covered = span.upto
            if covered < upto and expected(covered + 1, upto) & ~contributors:
                return False
            covered = upto
        return has_gained and covered >= last

    def add(self, window: ClosedWindow, finished: WindowRows, other: OtherGroups | None, version: InForce) -> None:
        """Keeps a corrected window until all panes that were published before are made again."""
        corrected = replace(window, revision=window.revision + 1)
        self._corrected.append((corrected, finished, other, version))
        self._left_out += len(self._corrected) > CORRECTED_MAX
        del self._corrected[:-CORRECTED_MAX]

    def take(self, upto: int, pane_ms: int | None) -> list[Corrected]:
        """The corrected windows, with positions before the first new pane; once, with a run that reaches beyond."""
        if upto <= self._published or not self._corrected:
            return []
        corrected, self._corrected = self._corrected, []
        first = closed_ms(self._published, pane_ms) + 1 - len(corrected)
        return [
            (replace(one, position=first + place), rows, other, version)
            for place, (one, rows, other, version) in enumerate(corrected)
        ]

    def take_left_out(self) -> int:
        """The number of corrected windows beyond CORRECTED_MAX; returned once."""
        left_out, self._left_out = self._left_out, 0
        return left_out

    # Agents that come back under this master.

    def enrolled(self, number: int, published: int) -> None:
        """Notes that an agent begins anew: of earlier panes it has handed in all that it will."""
        self._enrolled[number] = published

    def note(self, contributors: int, lacking: Iterable[IncompleteSpan], expected: Expected) -> None:
        """Notes who contributes now; `lacking`: the spans that lack somebody."""
        back, self._contributing = contributors & ~self._contributing, contributors
        for span in lacking if back else ():
            mine = back & expected(span.after + 1, span.upto) & ~span.contributors
            self.is_due |= any(
                mine >> number & 1 and span.upto > self._enrolled.get(number, FIRST_PANE)
                for number in range(mine.bit_length())
            )
