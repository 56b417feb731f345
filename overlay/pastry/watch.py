"""The failure detector: which of the peers that matter are alive.

Theory. Whatever comes from a peer shows that it lives; a Ping is sent only where nothing else came for a
*period*, and is answered with a Pong, which is news for both. So a quiet pair of peers costs two messages a
period in all: of the two, the one with the lower id pings first, the other only where that ping fails to come.

A peer that does not answer is pinged again and again, and has *failed* when nothing was heard for the
*timeout*. Near peers (next on the ring, parents and children in trees) are looked at more often than the rest
of the leaf set.

A peer that is *needed*, such as the next hop of a message or whoever was asked to be a parent, is pinged as soon
as it was silent for a near peer's period, and has less time. Hops that are watched for no other reason are left
alone once they have been heard after their use. A peer that owes an answer for SUSPECT_S is *suspected*: routes avoid
it where they can.

A process that was suspended wakes up in a world from which it has heard nothing for long, and which is not to
blame. It notices that its own timer is late. That time does not count as silence, and nobody fails who was
not pinged after it.

Several peers' pings go out at one tick, so that a node wakes up seldom.
"""

from collections.abc import Callable, Mapping
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
NEEDED_TIMEOUT_S = 3.0
ANSWER_S = 1.0
"""How long a peer has, at least, between a ping and failure, however long it was silent before."""
SUSPECT_S = 0.75
TICK_S = 0.25
TICK_MAX_S = 1.0
LATE_S = 0.5
SECOND_TURN = 1.25


class _Watched:
    """One peer under watch.

    `asked_at`: the first ping that is unanswered. `pinged_at`: the last ping. `is_needed`: it was used since it
    was heard.
    """

    __slots__ = ("asked_at", "heard_at", "is_needed", "pace", "peer", "pinged_at", "turn")

    def __init__(self, peer: Peer, pace: Pace, now: float, turn: float, *, is_needed: bool) -> None:
        self.peer = peer
        self.pace = pace
        self.heard_at = now
        self.turn = turn
        self.is_needed = is_needed
        # Who is needed from the beginning owes an answer from then on, to a ping that goes out at the next tick.
        self.asked_at = now if is_needed else None
        self.pinged_at = -inf

    def failure_at(self, asked_at: float) -> float:
        """Return when the peer will have failed if it goes on being silent."""
        failure = max(self.heard_at + self.pace.timeout_s, asked_at + ANSWER_S)
        return min(failure, asked_at + NEEDED_TIMEOUT_S) if self.is_needed else failure

    def due(self) -> float:
        """Return when something is to be done about the peer."""
        if self.asked_at is not None:
            retry_s = NEAR.retry_s if self.is_needed else self.pace.retry_s
            return min(self.pinged_at + retry_s, self.failure_at(self.asked_at))
        return self.heard_at + (NEAR.period_s if self.is_needed else self.pace.period_s * self.turn)


class Watch:
    """The peers one node watches.

    `suspects`: the ids of those that owe an answer.
    """

    def __init__(self, owner: Peer, outbox: Outbox, random: RandomSource, edges_with: Callable[[int], int]) -> None:
        self.suspects: set[int] = set()
        self._owner = owner
        self._outbox = outbox
        self._random = random
        self._edges_with = edges_with
        self._watched: dict[int, _Watched] = {}
        self._passing = 0
        self._tick_at: float | None = None

    def keep(self, near: Mapping[int, Peer], far: Mapping[int, Peer], now: float) -> None:
        """Watch these peers, and no others but for passing hops and those that owe an answer."""
        for node_id, one in list(self._watched.items()):
            if one.pace is not PASSING and node_id not in near and node_id not in far:
                self._dismiss(node_id, one)
        for peers, pace in ((far, FAR), (near, NEAR)):
            for node_id, peer in peers.items():
                watched = self._watched.get(node_id)
                if watched is None:
                    turn = 1.0 if self._owner.node_id < node_id else SECOND_TURN
                    self._watched[node_id] = _Watched(peer, pace, now, turn, is_needed=pace is NEAR)
                elif watched.pace is not pace:
                    self._passing -= watched.pace is PASSING
                    watched.pace = pace
                    watched.is_needed = watched.is_needed or pace is NEAR

    def _dismiss(self, node_id: int, watched: _Watched) -> None:
        """Watch a peer no longer; but one that owes an answer would be trusted again without having given it."""
        if watched.asked_at is None or self._passing >= PASSING_MAX:
            self.forget(node_id)
        else:
            self._passing += 1
            watched.pace = PASSING
            watched.is_needed = True

    def rely_on(self, peer: Peer, now: float) -> None:
        """See to it that a peer through which messages pass is alive."""
        watched = self._watched.get(peer.node_id)
        if watched is None and self._passing < PASSING_MAX:
            self._passing += 1
            self._watched[peer.node_id] = _Watched(peer, PASSING, now, 1.0, is_needed=True)
            self.hasten(now)
        elif watched is not None and not watched.is_needed:
            watched.is_needed = True
            if watched.due() <= now:
                self.hasten(now)

    def ask(self, peer: Peer, now: float) -> None:
        """Ping a peer at once: there is reason to doubt that it is alive."""
        self.rely_on(peer, now)
        watched = self._watched.get(peer.node_id)
        if watched is not None:
            self._ping(watched, now)
            self.hasten(now)

    def heard(self, sender: Peer, now: float) -> bool:
        """Note that a peer has spoken; return whether it is watched, and under that address."""
        watched = self._watched.get(sender.node_id)
        if watched is None:
            return False
        watched.heard_at = now
        watched.is_needed = False
        if watched.asked_at is not None:
            watched.asked_at = None
            self.suspects.discard(sender.node_id)
        return watched.peer.address == sender.address

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date."""
        if peer.node_id in self._watched:
            self._watched[peer.node_id].peer = peer

    def peer(self, node_id: int) -> Peer | None:
        """Return the peer as it is known here, None when it is not watched."""
        watched = self._watched.get(node_id)
        return None if watched is None else watched.peer

    def forget(self, node_id: int) -> float | None:
        """Stop watching a peer; return when it was last heard of if it was watched at all."""
        watched = self._watched.pop(node_id, None)
        if watched is None:
            return None
        self._passing -= watched.pace is PASSING
        self.suspects.discard(node_id)
        return watched.heard_at

    def clear(self) -> None:
        """Stop watching."""
        self._watched.clear()
        self.suspects.clear()
        self._passing = 0
        self._tick_at = None

    @property
    def is_armed(self) -> bool:
        """Whether there will be a tick."""
        return self._tick_at is not None

    def hasten(self, now: float) -> None:
        """See to it that there is a tick soon: there are others to be watched, or reasons to ask."""
        soon = now + jittered(TICK_S, self._random)
        self._tick_at = soon if self._tick_at is None else min(self._tick_at, soon)

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
        for node_id, watched in list(self._watched.items()):
            asked_at = watched.asked_at
            if asked_at is not None and now >= watched.failure_at(asked_at):
                failed.append(watched.peer)
            elif watched.due() <= now or late > LATE_S:
                if watched.pace is PASSING and not watched.is_needed:
                    self.forget(node_id)
                else:
                    self._ping(watched, now)
            if asked_at is not None and now - asked_at >= SUSPECT_S:
                self.suspects.add(node_id)
        due = min((watched.due() for watched in self._watched.values()), default=inf)
        self._tick_at = min(max(due, now + TICK_S), now + TICK_MAX_S) if self._watched else None
        return failed

    def _excuse(self, late: float, now: float) -> None:
        """Do not hold it against the peers that this node was not there to hear them."""
        for watched in self._watched.values():
            watched.heard_at = min(watched.heard_at + late, now)
            watched.asked_at = None
        self.suspects.clear()

    def _ping(self, watched: _Watched, now: float) -> None:
        if watched.asked_at is None:
            watched.asked_at = now
        watched.pinged_at = now
        self._outbox.send(watched.peer, Ping(token=0, incarnation=0, edges=self._edges_with(watched.peer.node_id)))

    def __len__(self) -> int:
        return len(self._watched)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._watched

    def check(self) -> None:
        """Assert every invariant."""
        assert self._owner.node_id not in self._watched
        assert self._passing == sum(watched.pace is PASSING for watched in self._watched.values()) <= PASSING_MAX
        assert self._tick_at is not None or not self._watched
        for node_id, watched in self._watched.items():
            assert node_id == watched.peer.node_id
            assert node_id not in self.suspects or watched.asked_at is not None
        assert self.suspects <= self._watched.keys()
