"""The failure detector of one node: pings, indirect pings, suspicion and refutation, leases (SWIM).

Theory. No node drops a peer on hearsay. A node that comes to suspect a peer notifies all nodes that watch the peer, and
they ping it themselves at once: so all notice a death as soon as the first does, and each that comes to the same
conclusion confirms the suspicion. The suspect is notified too, and can refute.
"""

from collections.abc import Callable

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource
from overlay.pastry.detection.health import Health
from overlay.pastry.detection.heartbeat import Heartbeat
from overlay.pastry.detection.indirect import Helpers, Relay
from overlay.pastry.detection.lease import Leases
from overlay.pastry.detection.suspicion import CONFIRMATIONS, Suspicions
from overlay.pastry.detection.watch import Watch
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.ids import Id
from overlay.wire.messages import Ping, PingReport, PingRequest, Pong, Refute, RelayedPing, Suspect
from overlay.wire.peer import Peer


class Detector:
    """Combines the parts of the detector and exchanges messages with other nodes' detectors."""

    def __init__(
        self,
        tables: PeerTables,
        watch: Watch,
        leases: Leases,
        heartbeat: Heartbeat,
        health: Health,
        outbox: Outbox,
        random: RandomSource,
    ) -> None:
        self._tables = tables
        self._watch = watch
        self._leases = leases
        self._heartbeat = heartbeat
        self._health = health
        self._outbox = outbox
        self._helpers = Helpers(heartbeat, outbox, random)
        self._relay = Relay(heartbeat, outbox)
        self._suspicions = Suspicions(random)

    def note_alive(self, sender: Peer, now: float) -> bool:
        """Note that a peer is alive; return whether it is watched under that address."""
        if self._suspicions.end(sender.node_id):
            self._helpers.end(sender.node_id)
        return self._watch.note_alive(sender, now)

    def handle_ping(self, sender: Peer, message: Ping, now: float) -> None:
        """Answer a ping."""
        self._heartbeat.answer(sender, message)
        self._watch.paired(sender, message.incarnation, now)
        self._leases.pinged(sender.node_id, message.token, now)

    def handle_pong(self, sender: Peer, message: Pong, now: float) -> None:
        """Handle the answer to a ping of this node, or to one sent for another node."""
        self._watch.paired(sender, message.incarnation, now)
        if self._relay.answered(sender, message.token):
            return
        answer = self._watch.answered(sender, message.token, now)
        if answer is None:
            return
        asked_at, was_pinged_once = answer
        self._helpers.end(sender.node_id)
        self._leases.answered(sender.node_id, asked_at, now)
        if was_pinged_once:
            self._tables.observe(sender, now - asked_at)

    def handle_ping_request(self, sender: Peer, message: PingRequest, now: float) -> None:
        """Ping a peer for another node. A request about this node needs no ping."""
        if message.target.node_id != self._tables.peer.node_id:
            self._relay.handle_request(sender, message, now)

    def handle_relayed_ping(self, sender: Peer, message: RelayedPing, now: float) -> None:
        """Answer a prober's helper; the prober has not dropped this node so far."""
        self._heartbeat.answer(sender, message)
        self._leases.relayed(message.origin.node_id, now)

    def handle_report(self, sender: Peer, message: PingReport, now: float) -> None:
        """Handle a helper's report."""
        asked_at = self._helpers.reported(sender, message)
        if asked_at is not None:
            self._suspicions.end(message.target)
            self._watch.reached(message.target, now)
            self._leases.answered(message.target, asked_at, now)

    def handle_suspect(self, sender: Peer, message: Suspect, now: float) -> None:
        """Refute a suspicion of this node; otherwise count it as a confirmation, or ping the suspect."""
        if message.peer == self._tables.peer.node_id:
            self._outbox.counters.refuted += 1
            self._health.worsen()
            self._outbox.send(sender, Refute(incarnation=self._heartbeat.refute(message.incarnation, now)))
        elif not self._suspicions.confirm(message.peer, sender.node_id, message.incarnation):
            self._watch.note_suspicion(message.peer, sender.node_id, message.incarnation, now)

    def handle_refute(self, sender: Peer, message: Refute, now: float) -> None:
        """Note the suspect's new incarnation."""
        self._watch.paired(sender, message.incarnation, now)

    def failed(self, peer: Peer, now: float) -> None:
        """Suspect a known peer that cannot be connected to, so that others check it; the suspect is not notified."""
        self._suspect(peer, self._watch.incarnation(peer.node_id), set(), now, tell=False)

    def forget(self, node_id: int) -> None:
        """Stop watching a peer. A suspicion of it remains."""
        self._watch.forget(node_id)
        self._helpers.end(node_id)

    def trust(self, node_id: int) -> None:
        """End the suspicion of a peer that has left or restarted."""
        self._suspicions.end(node_id)

    def handle_timer(self, now: float) -> list[Peer]:
        """Handle everything due except the watch's tick; return peers whose suspicion ended unrefuted."""
        self._relay.tick(now)
        told, over = self._suspicions.tick(now)
        for suspicion in told:
            self._outbox.send(
                suspicion.peer, Suspect(peer=Id(suspicion.peer.node_id), incarnation=suspicion.incarnation)
            )
        return over

    def look(self, now: float) -> list[Peer]:
        """Handle the watch's tick: ping, ask helpers, suspect; return failed peers."""
        findings = self._watch.tick(now)
        for peer in findings.silent:
            self._ask_others(peer, now)
        if any(self._helpers.are_silent(watched.peer.node_id) for watched in findings.suspected):
            self._health.worsen()
        for watched in findings.suspected:
            self._suspect(watched.peer, watched.incarnation, watched.suspected_by, now, tell=True)
        return findings.lapsed

    def _ask_others(self, peer: Peer, now: float) -> None:
        trusted = [
            member
            for member in self._tables.leaf_set
            if member.node_id != peer.node_id and self._watch.is_trusted(member.node_id)
        ]
        self._helpers.ask(peer, trusted, now)

    def _suspect(self, peer: Peer, incarnation: int, suspected_by: set[int], now: float, *, tell: bool) -> None:
        """Begin to suspect a peer; notify its watchers unless enough others have done so."""
        if peer.node_id in self._suspicions:
            return
        self._outbox.counters.suspected += 1
        ring_size = self._tables.leaf_set.ring_size()
        self._suspicions.begin(peer, incarnation, suspected_by, ring_size, now, tell=tell)
        message = Suspect(peer=Id(peer.node_id), incarnation=incarnation)
        if len(suspected_by) < CONFIRMATIONS:
            self._outbox.send_all(self._tables.leaf_set.sharers(peer.node_id), message)
        if tell:
            self._outbox.send(peer, message)

    def extend_deadlines(self, late_s: float, now: float) -> None:
        """Extend all deadlines by the time for which this node was stalled."""
        self._health.worsen()
        self._helpers.clear()
        self._relay.clear()
        self._suspicions.extend_deadlines(late_s)
        for node_id in self._watch.suspects:
            self._suspicions.end(node_id)
        self._watch.extend_deadlines(late_s, now)

    def timers(self) -> tuple[Callable[[], float | None], ...]:
        """Return functions that return when `handle_timer` is due."""
        return self._relay.next_timer, self._suspicions.next_timer

    def clear(self) -> None:
        """Forget every peer."""
        self._watch.clear()
        self._helpers.clear()
        self._relay.clear()
        self._suspicions.clear()

    def check(self) -> None:
        """Assert every invariant."""
        self._watch.check()
        self._relay.check()
        self._suspicions.check()
        assert all(node_id in self._suspicions for node_id in self._watch.suspects)
