"""The failure detector: which of the peers that matter are alive.

Theory. Whatever comes from a peer shows that it lives; a Ping is sent only where nothing else came for a
*period*, and is answered with a Pong, which is news for both. So a quiet pair of peers costs two messages a
period in all: of the two, the one with the lower id pings first, the other only where that ping fails to come.

A peer that does not answer is pinged again and again, and has *failed* when nothing was heard for the
*timeout*. Near peers (next on the ring, parents and children in trees) are looked at more often than the rest
of the leaf set. Other peers are watched only while messages are passed on through them: once it is known that
such a hop lives, it is left alone for a while.

A process that was suspended wakes up in a world from which it has heard nothing for long, and which is not to
blame. It notices that its own timer is late. That time does not count as silence, and nobody fails who was
not pinged after it.

Several peers' pings go out at one tick, so that a node wakes up seldom.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from overlay.messages import Ping
from overlay.outbox import Outbox
from overlay.peer import Peer
from overlay.random_source import RandomSource, jittered


@dataclass(frozen=True, slots=True)
class Pace:
    """Silence after which a peer is pinged, time between pings that stay unanswered, silence that is failure."""

    period_s: float
    retry_s: float
    timeout_s: float


NEAR = Pace(period_s=1.0, retry_s=0.25, timeout_s=3.0)
FAR = Pace(period_s=3.0, retry_s=0.75, timeout_s=10.0)
PASSING = Pace(period_s=10.0, retry_s=0.25, timeout_s=13.0)
PASSING_MAX = 64
ANSWER_S = 1.0
"""How long a peer has, at least, between a ping and failure, however long it was silent before."""
TICK_S = 0.25
TICK_MAX_S = 1.0
LATE_S = 0.5
SECOND_TURN = 1.25


class _Watched:
    """One peer under watch. `asked_at`: the first ping that is unanswered; `passing`: watched as a hop only."""

    __slots__ = ("asked_at", "heard_at", "is_confirmed", "is_passing", "pace", "peer", "pinged_at", "turn")

    def __init__(self, peer: Peer, pace: Pace, heard_at: float, turn: float) -> None:
        self.peer = peer
        self.pace = pace
        self.heard_at = heard_at
        self.turn = turn
        self.asked_at: float | None = None
        self.pinged_at = 0.0
        self.is_passing = False
        self.is_confirmed = False

    def has_failed(self, now: float) -> bool:
        """Say whether the peer was silent for too long, and had time to answer."""
        silent = now - self.heard_at >= self.pace.timeout_s
        return silent and self.asked_at is not None and now - self.asked_at >= ANSWER_S

    def due(self) -> float:
        """Return when something is to be done about the peer."""
        if self.asked_at is None:
            return self.heard_at + self.pace.period_s * self.turn
        failure = max(self.heard_at + self.pace.timeout_s, self.asked_at + ANSWER_S)
        return min(self.pinged_at + self.pace.retry_s, failure)


class Watch:
    """The peers one node watches."""

    def __init__(self, owner: Peer, outbox: Outbox, random: RandomSource) -> None:
        self._owner = owner
        self._outbox = outbox
        self._random = random
        self._watched: dict[int, _Watched] = {}
        self._passing = 0
        self._tick_at: float | None = None

    def keep(self, near: Mapping[int, Peer], far: Mapping[int, Peer], now: float) -> None:
        """Watch these peers, and no others but for passing hops."""
        for node_id in [node_id for node_id, one in self._watched.items() if not one.is_passing]:
            if node_id not in near and node_id not in far:
                del self._watched[node_id]
        for peers, pace in ((far, FAR), (near, NEAR)):
            for node_id, peer in peers.items():
                watched = self._watched.get(node_id)
                if watched is None:
                    turn = 1.0 if self._owner.node_id < node_id else SECOND_TURN
                    watched = self._watched[node_id] = _Watched(peer, pace, now, turn)
                elif watched.is_passing:
                    self._passing -= 1
                    watched.is_passing = False
                    watched.heard_at = watched.heard_at if watched.is_confirmed else now
                watched.pace = pace

    def rely_on(self, peer: Peer, now: float) -> None:
        """See to it that a peer through which messages pass is alive."""
        if peer.node_id in self._watched or self._passing >= PASSING_MAX:
            return
        # As if silent for the period: it is pinged at the next tick, unless it is heard before.
        watched = _Watched(peer, PASSING, now - PASSING.period_s, turn=1.0)
        watched.is_passing = True
        self._passing += 1
        self._watched[peer.node_id] = watched
        self._hasten(now)

    def ask(self, peer: Peer, now: float) -> None:
        """Ping a peer at once: there is reason to doubt that it is alive."""
        self.rely_on(peer, now)
        watched = self._watched.get(peer.node_id)
        if watched is not None:
            self._ping(watched, now)
            self._hasten(now)

    def heard(self, sender: Peer, now: float) -> bool:
        """Note that a peer has spoken; return whether it is watched, and under that address."""
        watched = self._watched.get(sender.node_id)
        if watched is None:
            return False
        watched.heard_at = now
        watched.asked_at = None
        watched.is_confirmed = True
        return watched.peer.address == sender.address

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date."""
        if peer.node_id in self._watched:
            self._watched[peer.node_id].peer = peer

    def peer(self, node_id: int) -> Peer | None:
        """Return the peer as it is known here, None when it is not watched."""
        watched = self._watched.get(node_id)
        return None if watched is None else watched.peer

    def forget(self, node_id: int) -> None:
        """Stop watching a peer."""
        watched = self._watched.pop(node_id, None)
        if watched is not None and watched.is_passing:
            self._passing -= 1

    def clear(self) -> None:
        """Stop watching."""
        self._watched.clear()
        self._passing = 0
        self._tick_at = None

    @property
    def is_armed(self) -> bool:
        """Whether there will be a tick."""
        return self._tick_at is not None

    def arm(self, now: float) -> None:
        """Begin to tick."""
        self._tick_at = now + jittered(TICK_S, self._random)

    def next_timer(self) -> float | None:
        """Return when `tick` is due."""
        return self._tick_at

    def is_due(self, now: float) -> bool:
        """Say whether it is time for a tick."""
        return self._tick_at is not None and now >= self._tick_at

    def tick(self, now: float) -> list[Peer]:
        """Ping who was silent, and return who has failed. To be called when due, after `keep`. O(watched)."""
        assert self._tick_at is not None
        late = now - self._tick_at
        if late > LATE_S:
            self._excuse(late, now)
        failed = []
        for watched in list(self._watched.values()):
            if watched.has_failed(now):
                failed.append(watched.peer)
            elif watched.due() <= now or late > LATE_S:
                if watched.is_passing and watched.is_confirmed and watched.asked_at is None:
                    self.forget(watched.peer.node_id)
                else:
                    self._ping(watched, now)
        due = min((watched.due() for watched in self._watched.values()), default=inf)
        self._tick_at = min(max(due, now + TICK_S), now + TICK_MAX_S) if self._watched else None
        return failed

    def _excuse(self, late: float, now: float) -> None:
        """Do not hold it against the peers that this node was not there to hear them."""
        for watched in self._watched.values():
            watched.heard_at = min(watched.heard_at + late, now)
            watched.asked_at = None

    def _hasten(self, now: float) -> None:
        self._tick_at = now + TICK_S if self._tick_at is None else min(self._tick_at, now + TICK_S)

    def _ping(self, watched: _Watched, now: float) -> None:
        if watched.asked_at is None:
            watched.asked_at = now
        watched.pinged_at = now
        self._outbox.send(watched.peer, Ping(wants_digest=False))

    def __len__(self) -> int:
        return len(self._watched)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._watched

    def check(self) -> None:
        """Assert every invariant."""
        assert self._owner.node_id not in self._watched
        assert self._passing == sum(watched.is_passing for watched in self._watched.values()) <= PASSING_MAX
        assert self._tick_at is not None or not self._watched
        assert all(node_id == watched.peer.node_id for node_id, watched in self._watched.items())
