"""Moves key groups from one owner of a job to another, at the master (Enorm, sections 4.4.2, 4.5 and 6.2).

Theory. A move holds from a pane on that nobody is expected to have cut yet: the modification punctuation. It is
multicast, again with each announcement, and each run says by which placement it was cut. So nothing hangs on who has
heard in time: of an instant move, windows are merged of whatever each owner has; of the others, the master begins an
epoch if anybody is late, in which all panes are cut anew.
"""

from __future__ import annotations

from collections.abc import Iterable

import query
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.job.local_job import LocalJob
from agent.runtime.master.owners.group_loads import GroupLoads
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import MoveKeys
from agent.runtime.messages.sender import MessageSender
from agent.runtime.messages.views.placement import GroupView, MoveView, OwnerView, PlacementView
from agent.runtime.model.fields import GROUPS, Mode
from agent.runtime.model.panes import END, FIRST_PANE
from agent.runtime.model.placement import MOVES_MAX, KeyMoves, Move
from overlay import Id, Peer, tree_id

AHEAD_MS = 1000
"""Least time between the newest pane that the master has heard of and the first one after a move."""
STAYS_S = 600.0
"""Time for which a group stays where somebody has placed it, as long as its owner and the master live."""
REPEAT_S = 0.5
"""Interval in which agents are told of moves whose panes have not come."""
ONE_TREE = "the job has one tree, and one owner: give it more, as in TREES 4"
UNDER_WAY = "group {group} has moved already, and open windows need both of its owners: try again once they are out"
NO_AGENT = "no agent {agent} takes part in the job; these do: {agents}"
NO_GROUPS = "the job has no groups to share among owners: these are keys of GROUP BY, over streams"
NO_TREE = f"the job has {query.TREES_MAX} trees already, and this agent owns none of them"
GOES_ON = "windows of a version before the last update are open, which need all groups in one tree: wait for their ends"
_NEAR_BITS = 64
"""Number of lower bits in which the key of an agent's tree differs from its node id."""


class NotYetError(Exception):
    """An agent does not own the tree yet that it is to own."""


OF_MASTER = "tree 0 is the master's, which waits for nobody: move groups to it, and from it, instantly or smoothly"
ENDING = "the job has come to its end"
NOT_BEGUN = "no pane has come yet: try again once the job has windows"
OPEN_WINDOWS_MAX = 4096
"""Upper bound on the windows that are open at a time whose state moves with a group."""
TOO_OPEN = f"{{windows:,}} windows are open at a time, and at most {OPEN_WINDOWS_MAX:,} can be given: move instantly"
PLAIN = "only windows of several panes have a state that can be moved: move the groups of this job instantly"
TOO_MANY = f"open windows need {MOVES_MAX} moves already: try again once some of them are out"


class KeyPlacement:
    """The places of one job's key groups, in one epoch of its master. `roots`: the owners of its trees, as far as they
    have sent anything."""

    def __init__(
        self, state: JobState, local: LocalJob, sender: MessageSender, master: Peer, name: str, now: float
    ) -> None:
        self.roots: dict[int, Peer] = {0: master}
        self.names: dict[int, str] = {master.node_id: name}
        """Names of agents by their node ids, as they have enrolled in this epoch."""
        self.loads = GroupLoads(now)
        self.added: Id | None = None
        """The key of a tree that is to be there from the next epoch on."""
        self._state, self._local, self._sender = state, local, sender
        self._repeat_at: float | None = None
        self._stays_until: dict[int, float] = {}
        """Times until which groups stay where somebody has placed them."""

    def move(self, groups: Iterable[int], tree: int, mode: Mode, now: float) -> str | None:
        """Moves groups to a tree, from a pane on that is not cut yet; returns why that is not possible. Where the
        master makes all windows they move instantly in any case: it merges what comes of both trees."""
        moved: KeyMoves | str = self._state.moved
        mode = mode if self._state.moved.owners else "instant"
        for group in groups:
            assert isinstance(moved, KeyMoves)
            moved = self._with_move(moved, group, tree, mode)
            if isinstance(moved, str):
                return moved
        assert isinstance(moved, KeyMoves)
        if moved is not self._state.moved:
            self._state.moved = moved
            self._local.place(moved)
            self._tell(now)
        return None

    def merge(self, now: float, *, at_owners: bool) -> None:
        """Has owners make windows from now on, or hand panes to the master."""
        self._state.moved = self._state.moved.with_owners(make_windows=at_owners)
        self._local.place(self._state.moved)
        self._tell(now)

    def _with_move(self, moved: KeyMoves, group: int, tree: int, mode: Mode) -> KeyMoves | str:
        state, function = self._state, self._state.versions.newest.function
        if state.trees == 1:
            return ONE_TREE
        if mode != "instant" and not function.is_consolidated:
            return PLAIN
        frontier, pane_ms = state.frontier, function.pane_ms or 1
        needed = state.versions.retention_pane(frontier)
        placement = TreePlacement(state.ranges, moved)
        if placement.trees_of_group(group) == {tree}:
            return moved
        if not self.is_settled(group):
            return UNDER_WAY.format(group=group)
        if len(moved.moves) >= MOVES_MAX:
            return TOO_MANY
        newest = self._local.nodes.combiner().newest_pane()
        if END in (newest, frontier):
            return ENDING
        if newest == FIRST_PANE:
            return NOT_BEGUN
        if mode == "disruptive" and function.open_windows > OPEN_WINDOWS_MAX:
            return TOO_OPEN.format(windows=function.open_windows)
        # Windows of the version before may be longer: their groups stay where they are.
        begun = FIRST_PANE if mode == "instant" else state.versions.newest.version.starts
        pane = max(newest, frontier, begun) // pane_ms * pane_ms + pane_ms + -(-AHEAD_MS // pane_ms) * pane_ms
        while any(one.pane == pane and mode == one.mode == "disruptive" and one.tree != tree for one in moved.moves):
            pane += pane_ms  # an owner gives to one other at a time
        until = pane + function.window_ms if mode == "smooth" else pane
        move = Move(moved.number + 1, pane, group, tree, mode, until)
        if mode == "disruptive" and 0 in {tree, *placement.trees_before(move)}:
            return OF_MASTER
        return moved.with_move(move, needed)

    def _tell(self, now: float) -> None:
        self._repeat_at = now + REPEAT_S
        state = self._state
        self._sender.multicast(state.job.app_id, MoveKeys(state.job.app_id, state.epoch, state.moved), now)

    def tick(self, now: float) -> None:
        """Tells agents again of moves whose panes have not come yet."""
        if self._repeat_at is not None and now >= self._repeat_at:
            is_awaited = any(move.pane > self._state.frontier for move in self._state.moved.moves)
            if is_awaited:
                self._tell(now)
            else:
                self._repeat_at = None

    def move_to(self, groups: Iterable[int], agent: str, mode: Mode, now: float) -> str | None:
        """Moves groups to the tree of an agent, by its name or the digits of its node id; of several, to the one with
        the fewest rows. Returns why that is not possible.

        Raises NotYetError if the agent is to own a tree, but does not yet: it is to be asked again.
        """
        function = self._state.versions.newest.function
        if not function.plan.is_divisible:
            return NO_GROUPS
        if mode != "instant" and not function.is_consolidated:
            return PLAIN
        names = self._all_names()
        node_id = next((node_id for node_id, name in names.items() if agent in (name, f"{node_id:032x}")), None)
        if node_id is None:
            return NO_AGENT.format(agent=agent, agents=", ".join(sorted(filter(None, names.values()))))
        trees = [tree for tree, peer in self.roots.items() if peer.node_id == node_id]
        if mode == "disruptive":
            trees = [tree for tree in trees if tree]
        if not trees:
            return self._add_tree(node_id)
        rows, before = self._rows_of_trees(), self._state.moved
        if not before.owners and not before.gave_up:  # who places groups wants them to have owners
            self._state.moved = before.with_owners(make_windows=True)
        refusal = self.move(groups, min(trees, key=lambda tree: (rows[tree], tree)), mode, now)
        if refusal is None:
            self._stays_until |= dict.fromkeys(groups, now + STAYS_S)
        else:
            self._state.moved = before
        return refusal

    def forget(self, node_id: int) -> None:
        """Forgets an agent that leaves: nothing moves to it any more."""
        self.names.pop(node_id, None)

    def _add_tree(self, node_id: int) -> str:
        """Has an agent own a tree from the next epoch on, unless it is to own one already: the tree's key is near the
        agent's id, so that its heir is the one that the overlay makes the root after it."""
        state = self._state
        is_added = any(key >> _NEAR_BITS == node_id >> _NEAR_BITS for key in state.moved.added)
        if not is_added and state.trees >= query.TREES_MAX:
            return NO_TREE
        if not is_added and any(one.version.finishes == "same" for one in list(state.versions)[1:]):
            return GOES_ON
        if not is_added and self.added is None:
            low = tree_id(state.job.app_id, state.trees) & ((1 << _NEAR_BITS) - 1)
            self.added = Id(node_id >> _NEAR_BITS << _NEAR_BITS | low)
        raise NotYetError

    # Views.

    def view(self, refusal: str | None = None) -> PlacementView:
        """The places of groups, for people."""
        state, rows = self._state, self._rows_of_trees()
        placement = state.placement
        needed = state.versions.retention_pane(state.frontier)
        owners = [
            OwnerView(tree, self._name_of(peer), peer.node_id, rows[tree]) for tree, peer in sorted(self.roots.items())
        ]
        groups = [
            GroupView(group, tuple(sorted(placement.trees_of_group(group))), float(self.loads.rows[group]))
            for group in range(GROUPS)
        ]
        moves = [
            MoveView(
                move.number,
                move.group,
                move.tree,
                move.mode,
                "" if move.pane == FIRST_PANE else query.format_timestamp(move.pane) or "",
                max(move.pane, move.until) <= needed,
            )
            for move in state.moved.moves
        ]
        return PlacementView(state.job.app_id, state.job.name, owners, groups, moves, refusal)

    def _name_of(self, peer: Peer) -> str:
        return self.names.get(peer.node_id) or self._all_names().get(peer.node_id, "")

    def _all_names(self) -> dict[int, str]:
        """Names of agents by their node ids; those of the roster are known before they have enrolled in this epoch."""
        there = (member for member in self._state.roster.entries() if member.last_pane is None)
        return {member.node_id: member.name for member in there} | self.names

    def name_of(self, tree: int) -> str:
        """The name, or the node id, of a tree's owner."""
        return self._name_of(self.roots[tree]) or f"{self.roots[tree].node_id:032x}"

    def may_be_moved(self, group: int, now: float) -> bool:
        """Whether a group may move for balance: no window needs another owner, and nobody has placed it lately."""
        return self.is_settled(group) and now >= self._stays_until.get(group, now)

    def is_at_rest(self, now: float) -> bool:
        """Whether no window needs another owner of any group, and nobody has placed one lately."""
        is_placed = any(now < until for until in self._stays_until.values())
        return not is_placed and all(map(self.is_settled, {move.group for move in self._state.moved.moves}))

    def is_settled(self, group: int) -> bool:
        """Whether no open window needs another owner of a group than the present one."""
        needed = self._state.versions.retention_pane(self._state.frontier)
        moves = (move for move in self._state.moved.moves if move.group == group)
        return all(max(move.pane, move.until) <= max(needed, FIRST_PANE + 1) for move in moves)

    def _rows_of_trees(self) -> list[float]:
        """The rows of each tree in a second; of a group that is on two, each has half."""
        placement = self._state.placement
        rows = [0.0] * self._state.trees
        for group in range(GROUPS):
            trees = placement.trees_of_group(group)
            for tree in trees:
                rows[tree] += float(self.loads.rows[group]) / len(trees)
        return rows
