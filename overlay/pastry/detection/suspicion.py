"""Suspicions: how long a silent peer stays a member that may refute (SWIM, Lifeguard).

Theory. A suspect is not used any more, and is dropped when its lease has expired; but its membership ends later, and
only if it stays silent. The fewer other nodes confirm a suspicion, the likelier the fault is this node's own, so the
longer the suspicion lasts: from 4 s (times the logarithm of the ring size, because messages take longer to spread in a
larger ring) with CONFIRMATIONS independent confirmations, up to six times that with none.

All that time the suspect is notified every TELL_S; any message from it ends the suspicion. A suspect whose process is
known not to run is not notified.
"""

from math import log, log10

from overlay.core.random_source import RandomSource, jittered
from overlay.wire.peer import Peer

CONFIRMATIONS = 2
SHORTEST_S = 4.0
LONGEST_FACTOR = 6.0
TELL_S = 2.0
SUSPICIONS_MAX = 256


def suspicion_s(confirmations: int, ring_size: float) -> float:
    """Return the duration of a suspicion with this many confirmations.

    >>> [round(suspicion_s(confirmations, 100)) for confirmations in (0, 1, 2, 3)]
    [48, 23, 8, 8]
    """
    shortest = SHORTEST_S * max(1.0, log10(ring_size))
    longest = LONGEST_FACTOR * shortest
    share = log(min(confirmations, CONFIRMATIONS) + 1) / log(CONFIRMATIONS + 1)
    return longest - (longest - shortest) * share


class Suspicion:
    """One suspect, and the nodes that have confirmed the suspicion."""

    __slots__ = ("began_at", "incarnation", "others", "peer", "ring_size", "tell_at")

    def __init__(
        self, peer: Peer, incarnation: int, others: set[int], ring_size: float, began_at: float, tell_at: float | None
    ) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.others = others
        self.ring_size = ring_size
        self.began_at = began_at
        self.tell_at = tell_at

    @property
    def ends_at(self) -> float:
        """Time at which the suspect's membership ends."""
        return self.began_at + suspicion_s(len(self.others), self.ring_size)

    def due(self) -> float:
        """Return when the suspect is to be notified or removed."""
        return self.ends_at if self.tell_at is None else min(self.ends_at, self.tell_at)


class Suspicions:
    """All suspects of one node. Beyond the bound, the oldest suspicion ends early."""

    def __init__(self, random: RandomSource) -> None:
        self._random = random
        self._suspicions: dict[int, Suspicion] = {}
        self._due: float | None = None

    def begin(
        self, peer: Peer, incarnation: int, others: set[int], ring_size: float, now: float, *, tell: bool
    ) -> None:
        """Suspect a peer, unless it is suspected already."""
        if peer.node_id in self._suspicions:
            return
        tell_at = now + jittered(TELL_S, self._random) if tell else None
        suspicion = Suspicion(peer, incarnation, set(others), ring_size, now, tell_at)
        self._suspicions[peer.node_id] = suspicion
        self._hasten(suspicion)

    def confirm(self, node_id: int, by: int, incarnation: int) -> bool:
        """Count another node's suspicion of a peer; return whether the peer is suspected here."""
        suspicion = self._suspicions.get(node_id)
        if suspicion is None:
            return False
        if incarnation >= suspicion.incarnation and len(suspicion.others) < CONFIRMATIONS:
            suspicion.others.add(by)
            self._hasten(suspicion)
        return True

    def end(self, node_id: int) -> bool:
        """End a suspicion; return whether the peer was suspected."""
        return self._suspicions.pop(node_id, None) is not None

    def extend_deadlines(self, late_s: float) -> None:
        """Extend all suspicions by the time for which this node was stalled."""
        for suspicion in self._suspicions.values():
            suspicion.began_at += late_s
        self._arm()

    def tick(self, now: float) -> tuple[list[Suspicion], list[Peer]]:
        """Return the suspects to notify, and the peers whose membership is over."""
        told, over = [], []
        for node_id, suspicion in list(self._suspicions.items()):
            if now >= suspicion.ends_at or len(self._suspicions) > SUSPICIONS_MAX:
                over.append(suspicion.peer)
                del self._suspicions[node_id]
            elif suspicion.tell_at is not None and now >= suspicion.tell_at:
                told.append(suspicion)
                suspicion.tell_at = now + jittered(TELL_S, self._random)
        self._arm()
        return told, over

    def next_timer(self) -> float | None:
        """Return when `tick` is due."""
        return self._due

    def clear(self) -> None:
        """End all suspicions."""
        self._suspicions.clear()
        self._due = None

    def _hasten(self, suspicion: Suspicion) -> None:
        due = suspicion.began_at if len(self._suspicions) > SUSPICIONS_MAX else suspicion.due()
        self._due = due if self._due is None else min(self._due, due)

    def _arm(self) -> None:
        self._due = min((suspicion.due() for suspicion in self._suspicions.values()), default=None)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._suspicions

    def __len__(self) -> int:
        return len(self._suspicions)

    def check(self) -> None:
        """Assert every invariant."""
        assert self._due is not None or not self._suspicions
        for node_id, suspicion in self._suspicions.items():
            assert node_id == suspicion.peer.node_id
            assert len(suspicion.others) <= CONFIRMATIONS
            assert self._due is not None
            assert self._due <= suspicion.due()
