"""The master's numbered list of a job's agents: what `expected` and `missing` are measured against."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent import contributors


@dataclass(frozen=True, slots=True)
class Member:
    number: int
    name: str
    node_id: int
    first_pane: int


@dataclass(slots=True)
class Roster:
    """Numbers are given in order of enrolment and never used again."""

    _members: list[Member] = field(default_factory=list)
    _by_node: dict[int, Member] = field(default_factory=dict)

    def enrol(self, node_id: int, name: str, first_pane: int) -> Member:
        """The agent's entry, made on its first enrolment and the same ever after."""
        member = self._by_node.get(node_id)
        if member is None:
            member = Member(len(self._members), name, node_id, first_pane)
            self._members.append(member)
            self._by_node[node_id] = member
        return member

    def expected(self, pane: int) -> int:
        """Bitmap of the agents that belong to a pane."""
        return sum(1 << member.number for member in self._members if member.first_pane <= pane)

    def names(self, numbers: int) -> list[str]:
        return [self._members[number].name for number in contributors.members(numbers)]

    def __len__(self) -> int:
        return len(self._members)
