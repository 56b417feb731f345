"""Reacts to peers that appear, fall silent, say goodbye and return, in all parts of one node."""

from collections.abc import Iterable
from itertools import chain
from typing import Protocol

from overlay.core.events import PeerFailed, PeerLeft, PeerRemoved
from overlay.core.outbox import Outbox
from overlay.pastry.detection.detector import Detector
from overlay.pastry.detection.heartbeat import Heartbeat
from overlay.pastry.detection.lease import LEASE_S, Leases
from overlay.pastry.detection.watch import Watch
from overlay.pastry.forwarding.forwarding import Forwarding
from overlay.pastry.membership.membership import Membership
from overlay.pastry.membership.repair import Repair
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.messages import Absent, Leaving, Ping, Pong, RelayedPing, Suspect
from overlay.wire.peer import Peer


class TreeNeighbours(Protocol):
    """Scribe's interface to Pastry: which peers tree edges lead to, and what becomes of them."""

    @property
    def revision(self) -> int: ...
    def neighbours(self) -> dict[int, Peer]: ...
    def renew(self, peer: Peer) -> None: ...
    def exchange_edges(self, peer: Peer) -> None: ...
    def compare_edges(self, sender: Peer, edges: int, now: float) -> None: ...
    def look_ahead(self, suspects: Iterable[int], now: float) -> None: ...
    def forget(self, node_id: int, now: float) -> bool: ...


class Presence:
    """Propagates changes in peers' liveness to every part of one node that holds state about them."""

    def __init__(
        self,
        tables: PeerTables,
        watch: Watch,
        detector: Detector,
        heartbeat: Heartbeat,
        leases: Leases,
        membership: Membership,
        repair: Repair,
        trees: TreeNeighbours,
        forwarding: Forwarding,
        outbox: Outbox,
    ) -> None:
        self._tables = tables
        self._watch = watch
        self._detector = detector
        self._heartbeat = heartbeat
        self._leases = leases
        self._membership = membership
        self._repair = repair
        self._trees = trees
        self._forwarding = forwarding
        self._outbox = outbox
        self._watched_revision = (0, 0)

    def notice_time(self, now: float) -> None:
        """Check, before anything else is done, whether this node was stalled and which leases have expired."""
        late_s = self._watch.late_s(now)
        if late_s > 0:
            self._detector.extend_deadlines(late_s, now)
            if late_s > LEASE_S:
                self._membership.resume_after_stall(now)
        self.follow_neighbours(now)

    def follow_neighbours(self, now: float) -> None:
        """Update the leases to the current ring neighbours and ping those whose lease is wanted."""
        for peer in self._leases.follow(now):
            if self._membership.is_active:
                self._watch.ask(peer, now)

    def stood_still(self, now: float) -> None:
        """Act upon a suspension longer than leases last, which the clock may not show."""
        if self._membership.is_active:
            self._detector.extend_deadlines(0.0, now)
            self._membership.resume_after_stall(now)

    def note_alive(self, sender: Peer, now: float) -> None:
        """Note that a peer is alive; adopt its new address; readmit it if it was considered gone."""
        if not self._detector.note_alive(sender, now):
            known = self._known(sender.node_id)
            if known is not None and known.address != sender.address:
                self._watch.renew(sender)
                self._tables.renew(sender)
                self._trees.renew(sender)
        if sender.node_id in self._tables.departed:
            self._take_back(sender, now)

    def _take_back(self, peer: Peer, now: float) -> None:
        was_gone = self._tables.departed.take_back(peer.node_id)
        self._outbox.counters.returned += 1
        if self._membership.is_active:
            # Learn the peer's leaf set and the tree edges it still believes in; it may not know that it was considered
            # dead.
            self._membership.probe(peer, now)
            self._trees.exchange_edges(peer)
            self._heartbeat.ping(peer, self._heartbeat.new_token())
            if was_gone:
                self._repair.search_gone(now, soon=True)

    def unreachable(self, peer: Peer, now: float) -> None:
        """Consider a peer dead that the transport cannot connect to. A stranger's failure is reported to the owner
        too.
        """
        known = self._known(peer.node_id)
        if known is None or known.address == peer.address:
            if known is not None:
                self._detector.failed(known, now)
            self._fail(peer, now, is_news=peer.node_id not in self._tables.departed)

    def check_alive(self, peer: Peer, now: float) -> None:
        """Ping a known peer at once."""
        if self._known(peer.node_id) is not None:
            self._watch.ask(peer, now)

    def doubt(self, node_id: int, now: float) -> bool:
        """Ping a watched peer that owes no answer, if it has been silent for a moment; return whether it was pinged."""
        peer = self._watch.silent(node_id, now)
        if peer is not None:
            self._watch.ask(peer, now)
        return peer is not None

    def restarted(self, peer: Peer, now: float) -> None:
        """Drop the state shared with the peer's earlier process, and probe the new one."""
        self._drop(peer, now)
        self._detector.trust(peer.node_id)
        if self._membership.is_active:
            self._membership.probe(peer, now)

    def handle_ping(self, sender: Peer, message: Ping, now: float) -> None:
        """Answer a member's ping, and take it into the tables."""
        if self._membership.refuse_if_absent(sender):
            return
        if self._membership.is_active:
            self._tables.meet(sender)
        self._detector.handle_ping(sender, message, now)
        self._trees.compare_edges(sender, message.edges, now)

    def handle_pong(self, sender: Peer, message: Pong, now: float) -> None:
        """Handle the answer to a ping."""
        self._detector.handle_pong(sender, message, now)
        self._trees.compare_edges(sender, message.edges, now)

    def handle_relayed_ping(self, sender: Peer, message: RelayedPing, now: float) -> None:
        """Answer a relayed ping if this node is a member."""
        if not self._membership.refuse_if_absent(sender):
            self._detector.handle_relayed_ping(sender, message, now)

    def handle_suspect(self, sender: Peer, message: Suspect, now: float) -> None:
        """Refute a suspicion of this node, or ping the suspect, if this node is a member."""
        if not self._membership.refuse_if_absent(sender):
            self._detector.handle_suspect(sender, message, now)

    def handle_leaving(self, sender: Peer, _message: Leaving, now: float) -> None:
        """Drop a peer that says goodbye."""
        if self._drop(sender, now):
            self._outbox.emit(PeerLeft(sender))
        self._detector.trust(sender.node_id)
        self._tables.departed.add(sender, now, is_gone=False)

    def handle_absent(self, sender: Peer, _message: Absent, now: float) -> None:
        """Drop a peer that is not a member: its id's earlier process, a member, must have failed."""
        if self._drop(sender, now):
            self._report_failure(sender)
        self._detector.trust(sender.node_id)
        self._tables.departed.add(sender, now, is_gone=False)

    def handle_timer(self, now: float) -> None:
        """Repeat unanswered probes, ping silent peers, and declare those dead that have been silent for too long."""
        for peer in self._membership.handle_timer(now):
            self._fail(peer, now)
        if self._watch.is_due(now):
            self._refresh_watch(now)
            for peer in self._detector.look(now):
                self._fail(peer, now)
            self._trees.look_ahead(sorted(self._watch.suspects), now)
        for peer in self._detector.handle_timer(now):
            self._remove(peer, now)

    def look_soon(self, now: float) -> None:
        """Schedule a tick of the watch soon after a change, so that new neighbours are watched."""
        if self._membership.is_active and (len(self._tables.leaf_set) > 0 or self._trees.neighbours()):
            self._watch.hasten(now)

    def _refresh_watch(self, now: float) -> None:
        """Watch the leaf set and the neighbours in trees, if either has changed."""
        revision = (self._membership.revision, self._trees.revision)
        if revision == self._watched_revision:
            return
        self._watched_revision = revision
        leaf_set, near = self._tables.leaf_set, self._trees.neighbours()
        near.update((peer.node_id, peer) for peer in (*leaf_set.successors[:1], *leaf_set.predecessors[:1]))
        far: dict[int, Peer] = {peer.node_id: peer for peer in leaf_set if peer.node_id not in near}
        self._watch.keep(near, far, now)

    def _known(self, node_id: int) -> Peer | None:
        return self._watch.peer(node_id) or self._tables.known(node_id)

    def _fail(self, peer: Peer, now: float, *, is_news: bool = False) -> None:
        is_known = self._drop(peer, now)
        self._tables.departed.add(peer, now, is_gone=is_known or self._tables.departed.is_gone(peer.node_id))
        self._repair.search_gone(now)
        if is_known or is_news:
            self._report_failure(peer)

    def _remove(self, peer: Peer, now: float) -> None:
        """End the membership of a peer whose suspicion was not refuted in time."""
        if self._drop(peer, now):
            self._report_failure(peer)
        self._tables.departed.add(peer, now, is_gone=True)
        self._outbox.counters.removed += 1
        self._outbox.emit(PeerRemoved(peer))

    def _report_failure(self, peer: Peer) -> None:
        self._outbox.counters.failed += 1
        self._outbox.emit(PeerFailed(peer))

    def _drop(self, peer: Peer, now: float) -> bool:
        """Remove a peer from every table and tree; return whether it was in one."""
        self._detector.forget(peer.node_id)
        in_tables = self._membership.forget(peer.node_id, now)
        in_trees = self._trees.forget(peer.node_id, now)
        self._forwarding.reroute(peer.node_id, now)
        return in_tables or in_trees

    def check(self) -> None:
        """Assert every invariant of an active node."""
        tree, leaf_set, departed = self._trees.neighbours(), self._tables.leaf_set, self._tables.departed
        assert not any(departed.is_gone(node_id) for node_id in tree), "a tree edge to a peer that failed"
        assert self._watch.is_armed or not (tree or leaf_set)
        if self._watched_revision == (self._membership.revision, self._trees.revision):
            assert all(peer.node_id in self._watch for peer in chain(tree.values(), leaf_set))
