"""Numbers a job's agents at its master: `expected` and `missing` are measured against this list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from agent.runtime.messages.jobs import MemberEntry
from agent.runtime.model import contributors
from agent.runtime.model.panes import END, FIRST_PANE
from overlay import Id, Peer

MEMBERS_MAX = 4096
NUMBERS_MAX = 65_536


@dataclass(slots=True)
class Roster:
    """Numbers are given in order of enrolment and never used again.

    An agent is expected from its first pane on until it leaves; crashing and coming back changes nothing. An agent that
    comes back after leaving is given a new number.
    """

    next_number: int = 0
    revision: int = 0
    """Grows with every change."""
    _members: dict[int, MemberEntry] = field(default_factory=dict)
    _steady: tuple[int, int, int] = (0, 0, 0)
    _by_node: dict[int, list[int]] = field(default_factory=dict)
    back: int = 0
    """Bitmap of the agents that have enrolled since they were last taken for dead."""
    _peers: dict[int, Peer] = field(default_factory=dict)
    _present: tuple[int, int] = (0, 0)
    _known: tuple[int, int] = (0, 0)
    _contributing: int = 0
    _contributed: dict[int, int] = field(default_factory=dict)
    _unknown_upto: int = FIRST_PANE

    @classmethod
    def of(cls, members: Iterable[MemberEntry], next_number: int, published_upto: int) -> Roster:
        """The roster of another master, which has published panes up to this one."""
        roster = cls(next_number)
        roster._unknown_upto = published_upto
        for member in sorted(members, key=lambda member: member.number):
            roster._put(member)
            roster.next_number = max(roster.next_number, member.number + 1)
        return roster

    def enrol(self, node_id: int, name: str, number: int | None = None) -> MemberEntry | None:
        """The agent's entry, made if it has none or has left for good; None if there is no room."""
        known = next(reversed(self._of(node_id)), None)
        if known is not None and (known.last_pane is None or known.number == number):
            return known
        if len(self._members) >= MEMBERS_MAX or self.next_number >= NUMBERS_MAX:
            return None
        member = MemberEntry(self.next_number, name, Id(node_id), None, None)
        self.next_number += 1
        self._put(member)
        return member

    def meet(self, peer: Peer) -> None:
        """Notes the address of an agent that enrols."""
        self._peers.pop(peer.node_id, None)
        self._peers[peer.node_id] = peer
        while len(self._peers) > MEMBERS_MAX:
            del self._peers[next(iter(self._peers))]

    def has_met(self, peer: Peer) -> bool:
        """Whether an agent has enrolled with this master."""
        return peer.node_id in self._peers

    def peers(self, numbers: int) -> list[Peer | None]:
        """The agents with these numbers; None for each that has not enrolled with this master yet."""
        found = (self._members.get(number) for number in contributors.members(numbers))
        return [self._peers.get(member.node_id) for member in found if member is not None]

    def last_pane(self, node_id: int) -> int | None:
        """The last pane of an agent that enrols again after leaving; None if it has not left."""
        left = (member.last_pane for member in self._of(node_id))
        return max((pane for pane in left if pane is not None), default=None)

    def contribute(self, numbers: int, after: int) -> None:
        """Notes who is in the panes after this one. O(agents that are not in them, and were before)."""
        for number in contributors.members(self._contributing & ~numbers):
            self._contributed[number] = after
        self._contributing = numbers

    def contributed(self, node_id: int, frontier: int) -> int:
        """The last of the panes up to a frontier to which an agent has, or may have, contributed."""
        last, known = self._unknown_upto, self._of(node_id)
        if not known:
            return frontier  # it may have left, and be forgotten
        for member in known:
            if self._contributing >> member.number & 1:
                return frontier
            left = FIRST_PANE if member.last_pane is None else member.last_pane
            last = max(last, left, self._contributed.get(member.number, FIRST_PANE))
        return last

    def _of(self, node_id: int) -> list[MemberEntry]:
        """An agent's entries, the oldest first: there are several if it has left and come back."""
        return [self._members[number] for number in self._by_node.get(node_id, ())]

    def begin(self, number: int, pane: int) -> bool:
        """Expects an agent from this pane on, or still from an earlier one; returns whether this is a change."""
        member = self._members[number]
        if member.first_pane is not None and member.first_pane <= pane:
            return False
        self._put(msgspec.structs.replace(member, first_pane=pane))
        return True

    def include(self, numbers: int, pane: int) -> None:
        """Expects contributors from a pane on, also where their `Ready` is still under way."""
        for number in contributors.members(numbers & ~self.expected(pane)):
            if number in self._members:
                self.begin(number, pane)

    def postpone(self, number: int, pane: int) -> None:
        """Expects an agent that has not contributed yet from a later pane on."""
        self._put(msgspec.structs.replace(self._members[number], first_pane=pane))

    def leave(self, number: int, last_pane: int) -> None:
        """Stops expecting an agent after this pane."""
        member = self._members[number]
        if member.last_pane is None:
            self._put(msgspec.structs.replace(member, last_pane=last_pane))

    def forget_left(self, frontier: int) -> None:
        """Frees the entries of agents that have left and whose last pane is published."""
        gone = [m for m in self._members.values() if m.last_pane is not None and m.last_pane <= frontier]
        self.revision += bool(gone)
        self._steady = (0, 0, 0)
        for member in gone:
            del self._members[member.number]
            self._contributed.pop(member.number, None)
            self._by_node[member.node_id].remove(member.number)
            if not self._by_node[member.node_id]:
                del self._by_node[member.node_id]

    def expected(self, pane: int) -> int:
        """Bitmap of the agents that belong to a pane. O(1) for most panes: agents come and go in few."""
        low, high, numbers = self._steady
        if not low <= pane < high:
            low, high, numbers = self._steady = self._steady_around(pane)
        return numbers

    def expected_in(self, first: int, last: int) -> int:
        """Bitmap of the agents that belong to any of the panes from one to another."""
        numbers = self.expected(first)
        if self._steady[1] > last:
            return numbers
        members = self._members.values()
        return sum(1 << member.number for member in members if _belongs_to_any(member, first, last))

    def _steady_around(self, pane: int) -> tuple[int, int, int]:
        """The panes around one (first, and first after) to which the same agents belong, and their bitmap."""
        members = self._members.values()
        changes = [member.first_pane for member in members if member.first_pane is not None]
        changes += [member.last_pane + 1 for member in members if member.last_pane is not None]
        low = max((change for change in changes if change <= pane), default=FIRST_PANE)
        high = min((change for change in changes if change > pane), default=END + 1)
        return low, high, sum(1 << member.number for member in members if _belongs(member, pane))

    def present(self) -> int:
        """Bitmap of the agents that have not left. O(1) while none comes or goes."""
        revision, numbers = self._present
        if revision != self.revision:
            numbers = sum(1 << member.number for member in self._members.values() if member.last_pane is None)
            self._present = (self.revision, numbers)
        return numbers

    def known(self) -> int:
        """Bitmap of all numbers in use. O(1) while no agent comes, or is forgotten."""
        revision, numbers = self._known
        if revision != self.revision:
            numbers = sum(1 << number for number in self._members)
            self._known = (self.revision, numbers)
        return numbers

    def numbers_of(self, node_id: int) -> int:
        """Bitmap of the numbers an agent has, or has had."""
        return sum(1 << member.number for member in self._of(node_id))

    def member(self, number: int) -> MemberEntry | None:
        return self._members.get(number)

    def names(self, numbers: int) -> list[str]:
        """The names of the agents with these numbers."""
        found = (self._members.get(number) for number in contributors.members(numbers))
        return [member.name for member in found if member is not None]

    def entries(self) -> list[MemberEntry]:
        return list(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def _put(self, member: MemberEntry) -> None:
        self.revision += 1
        self._steady = (0, 0, 0)
        if member.number not in self._members:
            self._by_node.setdefault(member.node_id, []).append(member.number)
        self._members[member.number] = member


def _belongs(member: MemberEntry, pane: int) -> bool:
    return _belongs_to_any(member, pane, pane)


def _belongs_to_any(member: MemberEntry, first: int, last: int) -> bool:
    begun = member.first_pane is not None and member.first_pane <= last
    return begun and (member.last_pane is None or first <= member.last_pane)
