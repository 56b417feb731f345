"""Collects at a master the windows that owners of trees make of the panes that it has decided on.

Theory. A run that is complete at the master names the owners that hold its states (`Run.held`). The master decides on
such runs in their order, and tells each owner of panes that open windows need; an owner answers with the windows that
end. A run is published once all of them have. What a master has of a tree itself, as it came beside the tree's root, it
makes windows of by itself, and merges with theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec
import polars as pl

from agent.runtime.function.tree_placement import rows_of_groups
from agent.runtime.function.versions import InForce
from agent.runtime.master.owners.group_loads import GroupLoads
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import Decision, GivenGroups, Snapshot
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model import contributors
from agent.runtime.model.meters import Work
from agent.runtime.model.panes import END, FIRST_PANE, Owner, Run
from agent.runtime.reduce.owned_states import decoded_old, decoded_windows
from agent.runtime.reduce.owner import OwnedWindow
from overlay import Peer

ASK_AGAIN_S = 1.5
"""Delay before an owner is told of a decision again that it has not answered."""
SILENCE_S = 10.0
"""Time without any answer after which an owner counts as lost, and is not asked again."""
PANES_AT_ONCE = 16
"""Number of panes with counts that are decided on at once: their windows are in memory together."""


@dataclass(slots=True)
class _Holder:
    """An owner of panes that open windows need. `last`: the last of them that counts."""

    last: int
    has_begun: bool = False


@dataclass(slots=True)
class _Asked:
    """The answers of one owner to a decision, by their first pane."""

    decision: Decision
    sent_at: float
    answers: dict[int, tuple[int, list[OwnedWindow]]] = field(default_factory=dict)

    @property
    def reached(self) -> int:
        """The last pane to which the answers are all there."""
        after = self.decision.after
        while after in self.answers:
            after = self.answers[after][0]
        return after

    def overlaps(self, message: Snapshot) -> bool:
        """Whether there is an answer for some of the panes of another one."""
        return any(after < message.upto and message.after < upto for after, (upto, _) in self.answers.items())


class _Decided(NamedTuple):
    run: Run
    version: InForce
    asked: dict[Owner, _Asked]

    @property
    def is_complete(self) -> bool:
        return all(asked.reached >= self.run.upto for asked in self.asked.values())


class OwnedWindows:
    """The owners of one master in one epoch. `refused`: answers that nobody has asked for, or that are not sound."""

    def __init__(self, state: JobState, sender: MessageSender, loads: GroupLoads) -> None:
        self._loads = loads
        self.refused = 0
        self.is_lost = False
        """Whether an owner is gone with panes that windows need: the master has to begin anew."""
        self.is_useless = False
        """Whether an owner has been silent, or does not answer what was asked: the master is to make windows itself."""
        self._state = state
        self._sender = sender
        self._peers: dict[int, Peer] = {}
        self._dead: set[int] = set()
        self._holders: dict[Owner, _Holder] = {}
        self._decided: deque[_Decided] = deque()
        self._answered_at: dict[int, float] = {}
        self._held: frozenset[Owner] = frozenset()
        self._whole_from = FIRST_PANE

    def reports(self, sender: Peer) -> None:
        """Notes an agent that has reported."""
        self._peers[sender.node_id] = sender
        self._dead.discard(sender.node_id)

    def decide(self, runs: Iterable[Run], now: float) -> Iterator[Run]:
        """Takes complete runs in their order; yields them in pieces, of which owners are to make windows now."""
        for run in runs:
            for piece in run.pieces(PANES_AT_ONCE) if run.held or self._holders else (run,):
                for part in _cut_at((move.pane for move in self._state.moved.moves), piece):
                    self._decide(part, now)
                    yield part

    def _decide(self, run: Run, now: float) -> None:
        version, held = self._state.versions.at(run.upto), dict(run.held)
        if run.state.height and self._state.trees > 1 and version.function.layout is not None:
            self._loads.add_rows(rows_of_groups(run.state))
        self._note_whole(run, frozenset(held), version)
        if not held and not self._holders:
            self._decided.append(_Decided(run, version, {}))
            return
        self.is_lost |= any(node_id in self._dead for _, node_id in held)
        self.is_lost |= self._counts_twice((run.state,), version, run.upto)
        for owner in held:
            self._holders.setdefault(owner, _Holder(run.upto)).last = run.upto
        gives, restores = self._given(run)
        asked = {}
        for owner, holder in list(self._holders.items()):
            decision = self._decision(owner, held.get(owner, 0), run, version)
            decision = msgspec.structs.replace(
                decision, gives=gives.get(owner), restores=sorted(restores.get(owner, ()))
            )
            asked[owner] = _Asked(decision, now)
            holder.has_begun = True
            if decision.ends:
                del self._holders[owner]
            self._answered_at.setdefault(owner[1], now)
            self._send(owner, decision, now)
        self._decided.append(_Decided(run, version, asked))

    def _note_whole(self, run: Run, held: frozenset[Owner], version: InForce) -> None:
        """Notes from where on all panes of a tree are with one owner, and all groups in one tree."""
        if held != self._held:
            self._whole_from, self._held = max(self._whole_from, run.after + 1), held
        if not held and not self._holders and not self._state.moved.moves:
            return
        is_stale = bool(run.contributors) and self._state.moved.is_stale(run.placed, run.upto)
        has_two = len({tree for tree, _ in held}) < len(held)  # one has stood still, and its heir has come
        is_beside = not self._state.placement.is_on_tree(version.function, run.state, 0)
        if is_stale or is_beside or has_two:
            self._whole_from = max(self._whole_from, run.upto + 1)
        if is_stale or is_beside:
            self.is_lost |= self._are_told_apart(run, only_stale=not is_beside)

    def _are_told_apart(self, run: Run, *, only_stale: bool) -> bool:
        """Whether one owner alone shows a group whose panes are with others as well, which is known only of panes that
        have come to owners, cut by the newest placement."""
        needed = self._state.versions.retention_pane(run.after)
        return any(
            move.mode != "instant" and move.pane <= run.upto and max(move.pane, move.until) > needed
            for move in self._state.moved.moves
            if move.number > run.placed or not only_stale
        )

    def _counts_twice(self, states: Iterable[pl.DataFrame], version: InForce, upto: int) -> bool:
        """Whether OTHER may hold groups that two owners have for now: nobody can tell whose it is."""
        needed = self._state.versions.retention_pane(self._state.frontier)
        moves = self._state.moved.moves
        has_both = any(move.mode == "smooth" and move.pane <= upto and move.until > needed for move in moves)
        return has_both and any(
            state.select(version.function.is_other.any()).item() for state in states if state.height
        )

    def _given(self, run: Run) -> tuple[dict[Owner, GivenGroups], dict[Owner, set[Owner]]]:
        """The owners that give groups to others before a run, and those that get them, of whom."""
        gives: dict[Owner, GivenGroups] = {}
        restores: dict[Owner, set[Owner]] = {}
        placement = self._state.placement
        for move in self._state.moved.moves:
            if move.mode != "disruptive" or move.pane != run.after + 1:
                continue
            to = next((owner for owner, _ in run.held if owner[0] == move.tree), None)
            before = placement.trees_before(move) - {move.tree}
            givers = [owner for owner, holder in self._holders.items() if owner[0] in before and holder.has_begun]
            if to is None:
                self.is_lost |= bool(givers)
                continue
            for giver in givers:
                groups = gives[giver][0] if giver in gives else []
                gives[giver] = ([*groups, move.group], move.tree, self._peers[to[1]])
                restores.setdefault(to, set()).add(giver)
        return gives, restores

    def _decision(self, owner: Owner, members: int, run: Run, version: InForce) -> Decision:
        holder = self._holders[owner]
        corrects = version.function.grace.corrects
        needed = self._state.versions.retention_pane(run.upto)
        return Decision(
            self._state.job.app_id,
            self._state.epoch,
            version.version.number,
            owner[0],
            run.after,
            run.upto,
            contributors=contributors.to_bytes(members),
            begins=not holder.has_begun,
            ends=run.upto == END or holder.last <= needed,
            whole_from=self._whole_from,
            published=FIRST_PANE if corrects else self._state.published_before,
            moved=self._state.moved,
        )

    def _send(self, owner: Owner, decision: Decision, now: float) -> None:
        if (peer := self._peers.get(owner[1])) is not None:
            self._sender.send(peer, decision, now)

    def tick(self, now: float) -> None:
        """Tells owners again of the decisions that they have not answered."""
        asks = [(owner, one) for decided in self._decided for owner, one in decided.asked.items()]
        waits = {owner[1] for owner, one in asks if one.reached < one.decision.upto}
        self._answered_at = {node_id: self._answered_at.get(node_id, now) for node_id in waits}
        if any(now - at > SILENCE_S for at in self._answered_at.values()):
            self.is_lost = self.is_useless = True
        for owner, one in asks:
            if one.reached < one.decision.upto and now - one.sent_at >= ASK_AGAIN_S:
                one.sent_at = now
                self._send(owner, one.decision, now)

    def take(self, message: Snapshot, sender: Peer, now: float) -> bool:
        """Takes an owner's answer, or a part of it; False if it was not asked for."""
        owner = (message.tree, sender.node_id)
        found = (decided for decided in self._decided if owner in decided.asked)
        decided = next((one for one in found if one.run.after <= message.after < message.upto <= one.run.upto), None)
        if decided is None:
            # An answer that comes again, as its acknowledgement was lost.
            is_known = message.upto <= self._state.frontier and sender.node_id in self._peers
            self.refused += not is_known
            return is_known
        self._answered_at[sender.node_id] = now
        asked = decided.asked[owner]
        if message.after not in asked.answers:
            begun_s, work = self._state.work.clock(), self._state.work
            windows = decoded_windows(message, decided.version.function)
            heights = [window.state.height for window in windows or ()]
            work.note(Work.DECODE, len(heights), sum(heights), work.clock() - begun_s)
            work.add(message.work)
            older = decoded_old(message, decided.run.after, self._state.versions.beside(message.upto))
            if windows is None or older is None or asked.overlaps(message):
                self.refused += 1
                self.is_lost = self.is_useless = True
            states = (window.state for window in windows or ())
            self.is_lost |= self._counts_twice(states, decided.version, message.upto)
            asked.answers[message.after] = (message.upto, [*(windows or ()), *(older or ())])
            self._loads.add_rows(message.loads)
            self._loads.add_seconds(sender.node_id, message.work_us / 1e6, message.busy_us / 1e6)
        return True

    def is_asked(self, tree: int, sender: Peer) -> bool:
        """Whether an agent is an owner of panes that windows need."""
        owner = (tree, sender.node_id)
        return owner in self._holders or any(owner in decided.asked for decided in self._decided)

    def died(self, node_id: int) -> None:
        """An agent is dead, until it reports again."""
        self._dead.add(node_id)
        asked = (owner for decided in self._decided for owner in decided.asked)
        self.is_lost |= any(owner[1] == node_id for owner in (*self._holders, *asked))

    def are_made(self, runs: Sequence[Run]) -> bool:
        """Whether the windows that end with the next runs are there; none are once the master has to begin anew."""
        return not self.is_lost and all(decided.is_complete for decided in islice(self._decided, len(runs)))

    def take_windows(self, run: Run) -> list[OwnedWindow]:
        """The windows of owners that end with the next run, by their ends, and lengths."""
        decided = self._decided.popleft()
        assert decided.run is run
        answers = (answer for asked in decided.asked.values() for answer in asked.answers.values())
        return sorted((one for _, windows in answers for one in windows), key=lambda one: (one.at, one.size_ms))


def _cut_at(panes: Iterable[int], run: Run) -> Iterator[Run]:
    """A run in pieces that begin with these panes."""
    after = run.after
    for pane in sorted(pane for pane in panes if run.after < pane - 1 < run.upto):
        yield run.within(after, pane - 1)
        after = pane - 1
    yield run.within(after, run.upto)
