"""Watches peers and tracks how long each has been silent.

Theory. Any message from a peer shows that it is alive; a Ping is sent only when nothing else came for a *period*, and
is answered with a Pong, which proves both ends alive. So a quiet pair of peers costs two messages per period in all:
the one with the lower id pings first, the other only when that ping fails to come. Near peers (next on the ring,
parents and children in trees) are pinged more often than the rest of the leaf set, and regardless of other messages:
their pings carry digests that both ends compare.

A pinged peer is ASKED. Pings are repeated, and its state worsens step by step until a message from it, or from a helper
that has reached it, makes it ALIVE again:

* ASKED for ANSWER_S: helpers are to ping it (SILENT).
* SILENT for ANSWER_S: it is SUSPECT. Routes, leaf sets sent to others and the choice of parents avoid it.
* LEASE_S after it was last heard from, LAPSE_S after it was asked and FINAL_S after suspicion began, it has *failed*
  and is no longer watched.

When this node itself is unhealthy (`overlay.pastry.detection.health`), ANSWER_S is stretched, up to ANSWER_MAX_S, and
so, up to STRETCH_MAX times, is the period of peers that are not near.

A peer that is *needed*, such as one that did not acknowledge a message or was asked for something, is pinged as soon as
it has been silent for a near peer's period. Peers watched for no other reason are released once they have been heard
from after their use.

A process that was suspended wakes up having heard from nobody for a long time, through no fault of the peers. It
notices that its own timer is late. That time does not count as silence, and every peer is asked anew.

Pings are batched in ticks, so that a node wakes up seldom.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from math import inf

from overlay.core.random_source import RandomSource, jittered
from overlay.pastry.detection.health import Health
from overlay.pastry.detection.heartbeat import Heartbeat
from overlay.pastry.detection.lease import LEASE_S
from overlay.pastry.detection.suspicion import CONFIRMATIONS
from overlay.wire.peer import Peer


class WatchLevel(IntEnum):
    """Reason to watch a peer, which determines how often it is pinged when silent."""

    PASSING = 0
    FAR = 1
    NEAR = 2


class Liveness(IntEnum):
    """Belief about a peer."""

    ALIVE = 0
    ASKED = 1
    SILENT = 2
    SUSPECT = 3


PERIOD_S = {WatchLevel.NEAR: 1.0, WatchLevel.FAR: 3.0, WatchLevel.PASSING: 10.0}
PASSING_MAX = 64
RETRY_S = 0.4
ANSWER_S = 0.5
ANSWER_MAX_S = 1.5
STRETCH_MAX = 1.5
LAPSE_S = 2.5
FINAL_S = 1.0
DOUBT_S = 0.3
"""Silence after which a peer that is waited for is pinged."""
ASK_AGAIN_S = 0.2
"""Minimum time between two pings of a peer, however many reasons there are to ask it."""
TICK_S = 0.25
TICK_MAX_S = 1.0
LATE_S = 0.5
SECOND_TURN = 1.25


def answer_s(health: Health) -> float:
    """Return how long a node of this health waits for an answer."""
    return min(ANSWER_S * health.factor, ANSWER_MAX_S)


@dataclass(slots=True)
class Findings:
    """Peers whose state has worsened."""

    silent: list[Peer]
    suspected: list["Watched"]
    lapsed: list[Peer]


class Watched:
    """One watched peer.

    `heard_at`: time of its last message, `paired_at`: of its last ping or answer. `asked_at`: time of the first
    unanswered ping, with its `token`; `pings` counts its repetitions. `is_needed`: it was used since it was last heard
    from. `suspected_by`: other nodes that have suspected it since then.
    """

    __slots__ = (
        "asked_at",
        "heard_at",
        "incarnation",
        "is_needed",
        "level",
        "liveness",
        "paired_at",
        "peer",
        "pinged_at",
        "pings",
        "suspected_at",
        "suspected_by",
        "token",
        "turn",
    )

    def __init__(self, peer: Peer, level: WatchLevel, heard_at: float, turn: float, *, is_needed: bool) -> None:
        self.peer = peer
        self.level = level
        self.turn = turn
        self.heard_at = self.paired_at = heard_at
        self.is_needed = is_needed
        self.liveness = Liveness.ALIVE
        self.asked_at = self.pinged_at = self.suspected_at = -inf
        self.token: int | None = None
        self.pings = 0
        self.incarnation = 0
        self.suspected_by: set[int] = set()

    def due(self, health: Health) -> float:
        """Return when the peer is to be pinged or its state worsens."""
        if self.liveness is not Liveness.ALIVE:
            return min(self.pinged_at + RETRY_S, self.worse_at(health))
        since = self.paired_at if self.level is WatchLevel.NEAR else self.heard_at
        stretch = 1.0 if self.level is WatchLevel.NEAR else min(health.factor, STRETCH_MAX)
        due = since + PERIOD_S[self.level] * self.turn * stretch
        return min(due, self.heard_at + PERIOD_S[WatchLevel.NEAR]) if self.is_needed else due

    def worse_at(self, health: Health) -> float:
        """Return when the state of an asked peer worsens if it stays silent."""
        if self.liveness is Liveness.SUSPECT:
            return max(self.heard_at + LEASE_S, self.asked_at + LAPSE_S, self.suspected_at + FINAL_S)
        return self.asked_at + answer_s(health) * self.liveness

    def revive(self) -> None:
        """Consider the peer alive, whatever was believed."""
        self.liveness = Liveness.ALIVE
        self.suspected_by.clear()


class Watch:
    """The peers one node watches.

    `suspects`: ids of the suspected ones.
    """

    def __init__(self, owner: Peer, heartbeat: Heartbeat, health: Health, random: RandomSource) -> None:
        self.suspects: set[int] = set()
        self._owner = owner
        self._heartbeat = heartbeat
        self._health = health
        self._random = random
        self._watched: dict[int, Watched] = {}
        self._passing = 0
        self._tick_at: float | None = None

    def keep(self, near: Mapping[int, Peer], far: Mapping[int, Peer], now: float) -> None:
        """Watch exactly these peers, and others while they are needed or owe an answer."""
        for node_id, one in list(self._watched.items()):
            if one.level is not WatchLevel.PASSING and node_id not in near and node_id not in far:
                self._release(node_id, one)
        for peers, level in ((far, WatchLevel.FAR), (near, WatchLevel.NEAR)):
            for node_id, peer in peers.items():
                watched = self._watched.get(node_id)
                if watched is None:
                    turn = 1.0 if self._owner.node_id < node_id else SECOND_TURN
                    is_near = level is WatchLevel.NEAR
                    heard_at = -inf if is_near else now
                    self._watched[node_id] = Watched(peer, level, heard_at, turn, is_needed=is_near)
                elif watched.level is not level:
                    self._passing -= watched.level is WatchLevel.PASSING
                    watched.level = level
                    watched.is_needed = watched.is_needed or level is WatchLevel.NEAR

    def _release(self, node_id: int, watched: Watched) -> None:
        """Stop watching a peer, unless it owes an answer: it must not become trusted without having given it."""
        if watched.liveness is Liveness.ALIVE or self._passing >= PASSING_MAX:
            self.forget(node_id)
        else:
            self._passing += 1
            watched.level = WatchLevel.PASSING
            watched.is_needed = True

    def rely_on(self, peer: Peer, now: float) -> None:
        """Watch a peer that is being used, until it has been heard from."""
        watched = self._watched.get(peer.node_id)
        if watched is None and self._passing < PASSING_MAX:
            self._passing += 1
            self._watched[peer.node_id] = Watched(peer, WatchLevel.PASSING, -inf, 1.0, is_needed=True)
            self.hasten(now)
        elif watched is not None and not watched.is_needed:
            watched.is_needed = True
            if watched.due(self._health) <= now:
                self.hasten(now)

    def ask(self, peer: Peer, now: float) -> None:
        """Ping a peer at once: there is reason to doubt that it is alive."""
        self.rely_on(peer, now)
        watched = self._watched.get(peer.node_id)
        if watched is not None and now >= watched.pinged_at + ASK_AGAIN_S:
            self._ping(watched, now)
            self.hasten(now)

    def silent(self, node_id: int, now: float) -> Peer | None:
        """Return a watched peer that owes no answer and has been silent for DOUBT_S."""
        watched = self._watched.get(node_id)
        if watched is None or watched.liveness is not Liveness.ALIVE or now < watched.heard_at + DOUBT_S:
            return None
        return watched.peer

    def note_suspicion(self, node_id: int, by: int, incarnation: int, now: float) -> None:
        """Ping a watched peer that another node suspects, unless the suspicion has been refuted already."""
        watched = self._watched.get(node_id)
        if watched is None or incarnation < watched.incarnation:
            return
        if len(watched.suspected_by) < CONFIRMATIONS:
            watched.suspected_by.add(by)
        if watched.liveness is Liveness.ALIVE:
            self.ask(watched.peer, now)

    def note_alive(self, sender: Peer, now: float) -> bool:
        """Note that a peer has sent a message; return whether it is watched under that address."""
        watched = self._watched.get(sender.node_id)
        if watched is None:
            return False
        watched.heard_at = now
        watched.is_needed = False
        if watched.liveness is not Liveness.ALIVE:
            self.suspects.discard(sender.node_id)
            watched.revive()
        return watched.peer.address == sender.address

    def paired(self, sender: Peer, incarnation: int, now: float) -> None:
        """Note that a peer has pinged or answered a ping."""
        watched = self._watched.get(sender.node_id)
        if watched is not None:
            watched.paired_at = now
            watched.incarnation = max(watched.incarnation, incarnation)

    def answered(self, sender: Peer, token: int, now: float) -> tuple[float, bool] | None:
        """Return when an answered ping was first sent and whether it was sent only once; None if the token is
        unknown.
        """
        watched = self._watched.get(sender.node_id)
        if watched is None or watched.token != token:
            return None
        watched.token = None
        if now - watched.asked_at <= answer_s(self._health):
            self._health.improve()
        return watched.asked_at, watched.pings == 1

    def reached(self, node_id: int, now: float) -> None:
        """Note that a helper has reached a peer that does not answer here."""
        watched = self._watched.get(node_id)
        if watched is not None:
            self.note_alive(watched.peer, now)
            watched.paired_at = now

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date."""
        if peer.node_id in self._watched:
            self._watched[peer.node_id].peer = peer

    def peer(self, node_id: int) -> Peer | None:
        """Return the known peer of this id, None when it is not watched."""
        watched = self._watched.get(node_id)
        return None if watched is None else watched.peer

    def incarnation(self, node_id: int) -> int:
        """Return a peer's highest known incarnation."""
        watched = self._watched.get(node_id)
        return 0 if watched is None else watched.incarnation

    def is_trusted(self, node_id: int) -> bool:
        """Say whether a peer is watched and owes no answer."""
        watched = self._watched.get(node_id)
        return watched is not None and watched.liveness is Liveness.ALIVE

    def forget(self, node_id: int) -> None:
        """Stop watching a peer."""
        watched = self._watched.pop(node_id, None)
        if watched is not None:
            self._passing -= watched.level is WatchLevel.PASSING
            self.suspects.discard(node_id)

    def clear(self) -> None:
        """Stop watching."""
        self._watched.clear()
        self.suspects.clear()
        self._passing = 0
        self._tick_at = None

    @property
    def is_armed(self) -> bool:
        """Whether a tick is scheduled."""
        return self._tick_at is not None

    def hasten(self, now: float) -> None:
        """Schedule a tick soon."""
        soon = now + jittered(TICK_S, self._random)
        self._tick_at = soon if self._tick_at is None else min(self._tick_at, soon)

    def next_timer(self) -> float | None:
        """Return when `tick` is due."""
        return self._tick_at

    def is_due(self, now: float) -> bool:
        """Say whether a tick is due."""
        return self._tick_at is not None and now >= self._tick_at

    def late_s(self, now: float) -> float:
        """Return how late the tick is if this node must have been stalled, otherwise 0."""
        late_s = 0.0 if self._tick_at is None else now - self._tick_at
        return late_s if late_s > LATE_S else 0.0

    def extend_deadlines(self, late_s: float, now: float) -> None:
        """Do not count the time for which this node was stalled as silence; ask every peer anew."""
        self.suspects.clear()
        for watched in self._watched.values():
            watched.heard_at = min(watched.heard_at + late_s, now)
            watched.revive()
            self._ping(watched, now)
        if self._watched:
            self._tick_at = now + TICK_S

    def tick(self, now: float) -> Findings:
        """Ping silent peers; return the peers whose state has worsened. Call when due, after `keep`. O(watched)."""
        findings = Findings([], [], [])
        due_at = inf
        for node_id, watched in list(self._watched.items()):
            if watched.liveness is not Liveness.ALIVE and now >= watched.worse_at(self._health):
                self._worsen(watched, findings, now)
            due = watched.due(self._health)
            if due <= now and watched.pinged_at + RETRY_S <= now:
                if watched.level is WatchLevel.PASSING and not watched.is_needed:
                    self.forget(node_id)
                    continue
                self._ping(watched, now)
                due = watched.due(self._health)
            if due < due_at:
                due_at = due
        self._tick_at = min(max(due_at, now + TICK_S), now + TICK_MAX_S) if self._watched else None
        return findings

    def _worsen(self, watched: Watched, findings: Findings, now: float) -> None:
        match watched.liveness:
            case Liveness.ASKED:
                watched.liveness = Liveness.SILENT
                findings.silent.append(watched.peer)
            case Liveness.SILENT:
                watched.liveness = Liveness.SUSPECT
                watched.suspected_at = now
                self.suspects.add(watched.peer.node_id)
                findings.suspected.append(watched)
            case Liveness.SUSPECT:
                findings.lapsed.append(watched.peer)
            case Liveness.ALIVE:
                pass

    def _ping(self, watched: Watched, now: float) -> None:
        if watched.liveness is Liveness.ALIVE:
            watched.liveness = Liveness.ASKED
            watched.asked_at = now
            watched.token = self._heartbeat.new_token()
            watched.pings = 0
        watched.pings += 1
        watched.pinged_at = now
        assert watched.token is not None
        self._heartbeat.ping(watched.peer, watched.token)

    def __len__(self) -> int:
        return len(self._watched)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._watched

    def check(self) -> None:
        """Assert every invariant."""
        assert self._owner.node_id not in self._watched
        assert self._passing == sum(one.level is WatchLevel.PASSING for one in self._watched.values()) <= PASSING_MAX
        assert self._tick_at is not None or not self._watched
        for node_id, watched in self._watched.items():
            assert node_id == watched.peer.node_id
            assert (node_id in self.suspects) == (watched.liveness is Liveness.SUSPECT)
            assert len(watched.suspected_by) <= CONFIRMATIONS
            assert watched.liveness is Liveness.ALIVE or watched.token is not None
        assert self.suspects <= self._watched.keys()
