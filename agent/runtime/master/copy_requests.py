"""Asks the fleet for copies of the sealed runs of agents that a job's complete panes lack; times those requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent.runtime.messages.copies import OWNERS_MAX, CopyRequest
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, Peer

ASK_AFTER_S = 1.0
"""Time for which an agent is lacking before it is asked for, unless it is known to be dead: who has lost its parent is
back by then."""
ASK_AGAIN_S = 1.0
"""Time after which agents are asked for again."""
ASKS_MAX = 3
"""Times that an agent is asked for in vain. Once it contributes, or a copy comes, it may be asked for again."""
COPIES_S = 0.25
"""Time for which a window that has all else waits for copies where nobody is waited for any more: of stragglers under
MIRROR, and of dead agents at the end of RECOVER FOR."""


class _Owner:
    """The copies of one agent, as far as a master knows. `since`: when panes began to lack it;
    `upto`: the last pane that has come as a copy."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.asked: tuple[int, float] | None = None
        self.asks = 0
        self.upto = FIRST_PANE

    def may_be_asked_for(self, frontier: int, now: float) -> bool:
        """Whether there is hope, and an answer would not be on its way already."""
        is_again = self.asked is not None and self.asked[0] == frontier and now - self.asked[1] < ASK_AGAIN_S
        return self.asks < ASKS_MAX and not is_again


class CopyRequests:
    """The requests of one master in one epoch; agents are roster numbers, several are bitmaps.

    `asked` counts requests, `recovered` the runs that have come and were of use.
    """

    def __init__(self, app_id: Id, epoch: JobEpoch, sender: MessageSender) -> None:
        self.asked = self.recovered = 0
        self._app_id = app_id
        self._epoch = epoch
        self._sender = sender
        self._owners: dict[int, _Owner] = {}
        self._holders: dict[int, Sequence[Peer]] = {}
        self._awaited = 0
        self._awaited_since: float | None = None

    def due(self, lacking: int, at_once: int, frontier: int, now: float) -> int:
        """The agents to ask for now, of all that complete panes lack; `at_once`: those that are not likely to come by
        themselves."""
        for number, owner in self._owners.items():
            if not lacking >> number & 1:
                owner.since = None
        due = 0
        for number in contributors.members(lacking):
            owner = self._owners.setdefault(number, _Owner())
            owner.since = now if owner.since is None else owner.since
            waits = now - owner.since < ASK_AFTER_S and not at_once >> number & 1
            if not waits and owner.may_be_asked_for(frontier, now):
                due |= 1 << number
        return due

    def note_holders(self, owner: int, holders: Sequence[Peer]) -> None:
        """Notes which agents hold an owner's runs, by node id."""
        self._holders[owner] = holders

    def ask(self, owners: Mapping[int, Id], frontier: int, now: float) -> None:
        """Asks for the runs beyond the frontier of these agents, by number with their node ids: those who hold them
        or, where they are not known or have not answered, the whole fleet."""
        of_holder: dict[Peer, set[Id]] = {}
        of_anybody: set[Id] = set()
        for number, node_id in owners.items():
            owner = self._owners[number]
            for peer in self._holders.get(node_id, ()):
                of_holder.setdefault(peer, set()).add(node_id)
            if owner.asks or node_id not in self._holders:
                of_anybody.add(node_id)
            owner.asks, owner.asked = owner.asks + 1, (frontier, now)
        self.asked += bool(owners)
        for peer, ids in of_holder.items():
            for message in self._requests(ids, frontier):
                self._sender.send(peer, message, now)
        for message in self._requests(of_anybody, frontier):
            self._sender.multicast(FLEET_GROUP, message, now)

    def _requests(self, owners: set[Id], frontier: int) -> Iterator[CopyRequest]:
        ids = sorted(owners)
        for first in range(0, len(ids), OWNERS_MAX):
            yield CopyRequest(self._app_id, self._epoch, frontier, ids[first : first + OWNERS_MAX])

    def are_awaited(self, lacking: int, hurried: int, now: float) -> bool:
        """Whether panes wait for copies, of agents that are hurried now or were before, to be called before `due`."""
        for number in contributors.members(hurried & ~self._awaited):
            if number not in self._owners or self._owners[number].asks < ASKS_MAX:
                self._awaited |= 1 << number
                self._awaited_since = now if self._awaited_since is None else self._awaited_since
        return bool(self._awaited & lacking) and now - (self._awaited_since or 0.0) < COPIES_S

    def is_asked(self, numbers: int) -> bool:
        """Whether the copies of any of these agents were asked for."""
        known = (self._owners.get(number) for number in contributors.members(numbers))
        return any(owner is not None and owner.asked is not None for owner in known)

    def came(self, number: int, upto: int) -> None:
        """Notes that a copy of an agent's run has come that is of use."""
        self.recovered += 1
        owner = self._owners.setdefault(number, _Owner())
        owner.asks, owner.upto = 0, max(owner.upto, upto)

    def published(self, upto: int, whole: int) -> int:
        """Notes that panes up to one are published, with these agents in all of them; returns those that have brought
        their parts themselves."""
        self._awaited, self._awaited_since = 0, None
        alive = whole
        for number, owner in list(self._owners.items()):
            if whole >> number & 1:
                if upto <= owner.upto:
                    alive &= ~(1 << number)
                else:
                    del self._owners[number]
        return alive
