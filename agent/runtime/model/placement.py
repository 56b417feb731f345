"""Key groups, and their moves from one tree of a job to another (Enorm, sections 4.4.2 and 4.5)."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import msgspec

from agent.runtime.model.fields import GROUPS, Count, Group, Mode, Time
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, tree_id

MOVES_MAX = 256
"""Upper bound on the moves that are told of: one more is refused where open windows need that many."""


class Move(msgspec.Struct, frozen=True, array_like=True):
    """From a pane on, a key group is on another tree than before. `until`: panes before it go to both trees. `number`:
    how many moves the job had with it."""

    number: Count
    pane: Time
    group: Group
    tree: Annotated[int, msgspec.Meta(ge=0, lt=GROUPS)]
    mode: Mode
    until: Time


class KeyMoves(msgspec.Struct, frozen=True, array_like=True):
    """The moves of a job's groups, in the order of their panes: `number` of them, without those that nobody needs to
    know any more. `added`: the keys of trees that the job has beside those of its query, each for an agent that is to
    own groups. `owners`: whether owners make windows, or hand panes to the master. `gave_up`: the latter for good, as
    one of them did not answer."""

    number: Count = 0
    moves: Annotated[tuple[Move, ...], msgspec.Meta(max_length=MOVES_MAX)] = ()
    added: Annotated[tuple[Id, ...], msgspec.Meta(max_length=GROUPS)] = ()
    owners: bool = True
    gave_up: bool = False

    def with_move(self, move: Move, needed: int) -> KeyMoves:
        """Adds a move. `needed`: panes up to this one are needed no longer, so of the moves before them only the
        last one of each group is. O(moves)."""
        last = {one.group: one for one in self.moves if one.pane <= needed}
        kept = [one for one in self.moves if one.pane > needed or last[one.group] is one]
        moves = tuple(sorted((*kept, move), key=lambda one: one.pane))
        return msgspec.structs.replace(self, number=move.number, moves=moves)

    def with_tree(self, key: Id) -> KeyMoves:
        """Adds a tree, for the next epoch."""
        return msgspec.structs.replace(self, added=(*self.added, key))

    def with_owners(self, *, make_windows: bool, gave_up: bool = False) -> KeyMoves:
        """Has owners make windows from now on, or hand panes to the master."""
        return msgspec.structs.replace(self, number=self.number + 1, owners=make_windows, gave_up=gave_up)

    def begun_anew(self) -> KeyMoves:
        """The moves for an epoch in which all panes are cut anew: groups were where they are now from the first."""
        if not self.moves:
            return self
        number = self.number + 1
        last = {move.group: move.tree for move in self.moves}
        moves = (Move(number, FIRST_PANE, group, tree, "instant", FIRST_PANE) for group, tree in sorted(last.items()))
        return msgspec.structs.replace(self, number=number, moves=tuple(moves))

    def is_stale(self, placed: int, upto: int) -> bool:
        """Whether a run with panes up to one was cut without a move that holds for some of them."""
        return any(move.number > placed and move.pane <= upto for move in self.moves)


NOT_MOVED = KeyMoves()


@lru_cache(maxsize=1024)
def groups_of(app_id: Id, trees: int, added: tuple[Id, ...] = ()) -> tuple[Id, ...]:
    """The overlay's groups of a job's trees, in their order; the last ones are those that were added."""
    return (app_id, *(tree_id(app_id, tree) for tree in range(1, trees - len(added))), *added)
