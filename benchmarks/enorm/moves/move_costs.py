"""What owners of key groups need for panes, and what moves of groups add to it, measured and fitted by rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from statistics import fmean, median

from agent.placement import FrameCost
from agent.runtime.model.fields import GROUPS, Mode

from .owner_rig import Owners, PaneCosts, function_of, moved, of_groups, pane_at, pane_of

PANES = 5
"""Panes of a window, one of which ends with each pane."""
SETTLED = 2
"""Panes before groups move of which the ordinary times are taken."""
OWNED, MOVING = (8, 16), (1, 4)
"""Groups of each owner, and those of them that move, in the runs by which costs are fitted."""
_AT = PANES + SETTLED
"""The number of the first pane that is with the new owner."""
_SPANNING = PANES - 1
"""Windows that hold panes of both owners."""
OLD, NEW = 1, 2


@dataclass(frozen=True)
class MoveCosts:
    """Processor time. `answer`: of an owner for the windows that end with a pane, by its rows; `shown_s`: of the master
    for a window. By the rows that move: `old` and `new`, what owners need more, by the mode, for each window that is
    open as groups move; `merge`, the same of the master if they move instantly; and `take`, of the new owner for their
    state. The old one's time to `give` it, and what the new one needs more with it (`joined`), are by the rows of the
    owner and by those that move."""

    answer: FrameCost
    shown_s: float
    old: dict[Mode, FrameCost]
    new: FrameCost
    merge: FrameCost
    give: FrameCost
    take: FrameCost
    joined: FrameCost


@dataclass(frozen=True)
class _Trial:
    """Two owners of as many rows each, of which one gives some to the other."""

    mode: Mode
    owned: int
    moving: int
    panes: list[PaneCosts]

    def rows_of(self, tree: int) -> int:
        """The rows of an owner after the move."""
        return self.owned + (self.moving if tree == NEW else -self.moving)

    @property
    def spanning(self) -> list[PaneCosts]:
        """The panes whose windows have panes of both owners."""
        return self.panes[_AT : _AT + _SPANNING]

    @property
    def calm(self) -> list[PaneCosts]:
        return self.panes[PANES:_AT]


def measured_costs(keys_of_group: int, rounds: int) -> MoveCosts:
    """Measures owners of some numbers of groups, of which some move."""
    modes: tuple[Mode, ...] = ("instant", "disruptive")
    trials = [_trial(*what, keys_of_group) for _ in range(rounds) for what in product(modes, OWNED, MOVING)]
    calm = [(one.owned, seconds) for one in trials for pane in one.calm for seconds in pane.answers.values()]
    answer = FrameCost.fitted([1.0] * len(calm), *zip(*calm, strict=True))
    shown_s = median(pane.shown_s for one in trials for pane in one.calm)

    def fitted(mode: Mode, seconds: Callable[[_Trial], float], tree: int | None = None) -> FrameCost:
        """The cost by the rows of an owner, or a fixed one, and by those that move."""
        found = [one for one in trials if one.mode == mode]
        first = [1.0 if tree is None else one.rows_of(tree) for one in found]
        return FrameCost.fitted(first, [one.moving for one in found], [max(0.0, seconds(one)) for one in found])

    def more(tree: int) -> Callable[[_Trial], float]:
        return lambda one: fmean(pane.answers[tree] for pane in one.spanning) - answer.of(1, one.rows_of(tree))

    return MoveCosts(
        answer,
        shown_s,
        {mode: fitted(mode, more(OLD)) for mode in modes},
        fitted("instant", more(NEW)),
        fitted("instant", lambda one: fmean(pane.shown_s for pane in one.spanning) - shown_s),
        fitted("disruptive", lambda one: one.panes[_AT].gives[OLD, NEW][0], OLD),
        fitted("disruptive", lambda one: one.panes[_AT].gives[OLD, NEW][1]),
        fitted("disruptive", more(NEW), NEW),
    )


def _trial(mode: Mode, owned: int, moving: int, keys_of_group: int) -> _Trial:
    before = [OLD if group < owned else NEW for group in range(GROUPS)]
    after = [NEW if group < moving else tree for group, tree in enumerate(before)]
    version = function_of(NEW + 1, PANES)
    owners = Owners(version, moved(before, after, _AT, mode, version.function.window_ms), (OLD, NEW))
    state = of_groups(pane_of(version.function, GROUPS * keys_of_group), 2 * owned)
    panes = [owners.take(pane_at(number), state) for number in range(_AT + _SPANNING)]
    return _Trial(mode, owned * keys_of_group, moving * keys_of_group, panes)
