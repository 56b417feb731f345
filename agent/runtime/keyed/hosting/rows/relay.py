"""Sends messages from agent to agent along the ring, many in one, where a job has too many agents for links to all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.runtime.keyed.hosting.options import Ring
from agent.runtime.messages.elements import CARRIED, HOPS_MAX, LETTERS_MAX, ElementParcel, Letter
from agent.runtime.model.fields import Message
from overlay import Id, Peer, WireError

PARCEL_BYTES = 256 << 10
"""Bytes of letters from which on a parcel waits for no more."""


@dataclass(slots=True)
class _Parcel:
    """Letters with the same next hop, the first of which came at a time."""

    since: float
    letters: list[Letter] = field(default_factory=list)
    size: int = 0


class MessageRelay:
    """Letters to agents, and through this one to others: those that have one next hop go together.

    An agent so has links to its next hops alone: as many as its routing table and its leaf set have entries. What is
    lost on the way is repeated by who sent it, as on a link. `wait_s`: time that letters wait for others.
    """

    def __init__(self, app_id: Id, ring: Ring, wait_s: float) -> None:
        self._app_id, self._ring, self._wait_s = app_id, ring, wait_s
        self._open: dict[Peer, _Parcel] = {}
        self._parcels = self._letters = self._undelivered = 0

    def post(self, to: Peer, message: Message, now: float) -> None:
        """Sends to an agent: at once where it is the next hop itself."""
        hop = self._ring.next_hop(to.node_id)
        if hop is not None and hop.node_id == to.node_id:
            self._send(hop, now)
            self._ring.send(to, message, now)
        else:
            self._put(hop, Letter(to, self._ring.me, 0, CARRIED.encode(message)), now)

    def take(self, parcel: ElementParcel, now: float) -> list[tuple[Peer, Message]]:
        """Passes letters on, and returns those that are for this agent, with their senders."""
        own: list[tuple[Peer, Message]] = []
        for letter in parcel.letters:
            if letter.to.node_id != self._ring.me.node_id:
                hop = self._ring.next_hop(letter.to.node_id) if letter.hops < HOPS_MAX else None
                self._put(hop, Letter(letter.to, letter.origin, letter.hops + 1, letter.message), now)
                continue
            try:
                message = CARRIED.decode(letter.message)
            except WireError:
                self._undelivered += 1
                continue
            if message.app_id == self._app_id:
                own.append((letter.origin, message))
        return own

    def _put(self, hop: Peer | None, letter: Letter, now: float) -> None:
        """Puts a letter to those with its next hop. None: nobody is nearer to where it is to go, who so is gone."""
        if hop is None:
            self._undelivered += 1
            return
        parcel = self._open.setdefault(hop, _Parcel(now))
        parcel.letters.append(letter)
        parcel.size += len(letter.message)
        self._letters += 1
        if parcel.size >= PARCEL_BYTES or len(parcel.letters) >= LETTERS_MAX:
            self._send(hop, now)

    def _send(self, hop: Peer, now: float) -> None:
        if (parcel := self._open.pop(hop, None)) is not None:
            self._parcels += 1
            self._ring.send(hop, ElementParcel(self._app_id, parcel.letters), now)

    def tick(self, now: float) -> None:
        """Sends parcels that have waited."""
        for hop in [hop for hop, parcel in self._open.items() if now >= parcel.since + self._wait_s]:
            self._send(hop, now)

    def statistics(self) -> Mapping[str, int]:
        """Counts by name."""
        return {"parcels": self._parcels, "letters": self._letters, "undelivered": self._undelivered}

    def next_timer(self) -> float | None:
        """The time at which a parcel has waited."""
        return min((parcel.since + self._wait_s for parcel in self._open.values()), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether no letter waits."""
        return not self._open
