"""Scribe: groups as trees over Pastry routes (paper 2.3, "shared reducer trees"), and multicast down them.

A group is a key; its root is the active node numerically closest to it. A node that subscribes joins along its route to
the key; the union of these paths is the tree. Nodes on it that are not subscribed are forwarders. The parts, each with
its theory:

- `attachment`: finds a node's parent in each tree, and accepts or refuses children;
- `epochs`: decides which root is current; `replicas`: its state at possible successors;
- `multicast`: numbered, in order, pulled if missing; `acknowledgements`: which members have one;
- `edges`, `comparison`: heartbeats whose digests show whether two neighbours agree about all their trees.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource
from overlay.pastry.detection.watch import Watch
from overlay.pastry.membership.membership import Membership
from overlay.pastry.tables.tables import PeerTables
from overlay.scribe.acknowledgements import Acknowledgements
from overlay.scribe.attachment import TreeAttachment
from overlay.scribe.comparison import Comparison
from overlay.scribe.epochs import Epochs
from overlay.scribe.group import Group
from overlay.scribe.multicast import Multicast
from overlay.scribe.replicas import Replicas
from overlay.scribe.tree_state import TreeState
from overlay.wire.ids import Id
from overlay.wire.messages import (
    Acknowledge,
    AcknowledgeAgain,
    AcknowledgeResult,
    Disseminate,
    EdgeBuckets,
    GroupDigest,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
    OverlayMessage,
    Pull,
    Replicate,
    RootAnswer,
    RootQuery,
    Supply,
)
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    Frontier,
    TreeStatus,
    UpwardEdge,
)


class Scribe:
    """The groups of one node. `epochs`: counters it took as a root before it was started."""

    def __init__(
        self,
        tables: PeerTables,
        membership: Membership,
        watch: Watch,
        outbox: Outbox,
        random: RandomSource,
        epochs: Mapping[Id, int],
    ) -> None:
        self._membership = membership
        self._trees = trees = TreeState(membership.peer, outbox, random)
        self.epochs = Epochs(trees, membership, epochs, self._believed)
        self.replicas = Replicas(trees, tables)
        self.acknowledgements = Acknowledgements(trees)
        self.multicast = Multicast(trees, self.epochs, self.replicas, self.acknowledgements, self._settle)
        self.attachment = TreeAttachment(
            trees, tables, membership, watch, self.epochs, self.replicas, self.acknowledgements, self.multicast
        )
        self.comparison = Comparison(trees)

    def handlers(self) -> dict[type[OverlayMessage], Callable[[Peer, Any, float], None]]:
        """Return the handler of each tree message."""
        return {
            Disseminate: self.multicast.handle_disseminate,
            GroupJoin: self.attachment.handle_join,
            GroupJoined: self.attachment.handle_joined,
            GroupRefused: self.attachment.handle_refused,
            GroupLeave: self.attachment.handle_leave,
            GroupDigest: self.handle_digest,
            EdgeBuckets: self.comparison.handle_buckets,
            Pull: self.multicast.handle_pull,
            Supply: self.multicast.handle_supply,
            Replicate: self.handle_replicate,
            RootQuery: self.handle_root_query,
            RootAnswer: self.handle_root_answer,
            Acknowledge: self.acknowledgements.handle_acknowledge,
            AcknowledgeAgain: self.acknowledgements.handle_again,
            AcknowledgeResult: self.acknowledgements.handle_result,
        }

    # Calls by the owner.

    def subscribe(self, key: Id, now: float) -> None:
        """Become a member: multicasts are delivered from the moment the node is attached."""
        group = self.attachment.group(key)
        group.subscribed = True
        self.attachment.settle(group, now)

    def unsubscribe(self, key: Id) -> None:
        """Stop being a member; the node stays on as a forwarder while it has children."""
        group = self._trees.groups.get(key)
        if group is not None:
            group.subscribed = False
            self.attachment.prune(group)

    def parent(self, key: int) -> Peer | None:
        """Return the parent, None at the root and outside the tree."""
        group = self._trees.groups.get(Id(key))
        return None if group is None else group.parent

    def depth(self, key: int) -> int | None:
        """Return the number of edges up to the root, None outside the tree or without a path to the root."""
        group = self._trees.groups.get(Id(key))
        return None if group is None or not group.attached else len(group.path)

    def children(self, key: int) -> tuple[Peer, ...]:
        """Return the children, in order of arrival."""
        group = self._trees.groups.get(Id(key))
        return () if group is None else tuple(group.children.values())

    def is_attached(self, key: int) -> bool:
        """Say whether the node has a path to the group's root, or is the root."""
        group = self._trees.groups.get(Id(key))
        return group is not None and group.attached

    @property
    def groups(self) -> tuple[Id, ...]:
        """The keys of all groups whose trees the node is in."""
        return tuple(self._trees.groups)

    # Heartbeats.

    def edges_with(self, node_id: int) -> int:
        """Return the digest of all tree edges shared with a peer; 0 when there are none. O(1)."""
        return self._trees.index.digest(node_id)

    def compare_edges(self, sender: Peer, edges: int, now: float) -> None:
        """Compare a peer's digest of the shared tree edges with this node's. O(1) when they agree."""
        if self._membership.is_active:
            self.comparison.compare(sender, edges, now)

    def exchange_edges(self, peer: Peer) -> None:
        """Start locating differences with a peer's view of the shared edges at once."""
        self.comparison.exchange(peer)

    def handle_digest(self, sender: Peer, message: GroupDigest, now: float) -> None:
        """Repair the edges on which the sender's view differs; answer with this node's view if asked."""
        for key in message.children:
            group = self._trees.groups.get(key)
            if group is None or not (group.is_parent(sender) or group.is_candidate(sender)):
                self._trees.outbound.leave(sender, key)
        for edge in message.parents:
            self._mend(sender, edge, now)
        if message.asks:
            self.comparison.send_edges(sender, message.buckets, asks=False)

    def _mend(self, child: Peer, edge: UpwardEdge, now: float) -> None:
        group = self._trees.groups.get(edge.group)
        status = TreeStatus(edge.group, edge.epoch, edge.recent)
        if group is None or child.node_id not in group.children:
            self.attachment.join(child, status, now)
            return
        self.attachment.note_epoch(group, status)
        if (group.checksum, group.epoch, group.recent) != (edge.checksum, edge.epoch, edge.recent):
            self._trees.outbound.send_position((child,), group)
            self.multicast.recover(group, edge.recent, child, now)

    # Roots.

    def handle_replicate(self, sender: Peer, message: Replicate, now: float) -> None:
        """Keep the state of another root; if this node has become the root, continue from it."""
        for state in message.states:
            group = self._trees.groups.get(state.group)
            if self.replicas.keep(sender, state) and group is not None and group.is_root:
                self.attachment.note_epoch(group, TreeStatus(state.group, state.epoch, ()))
                inherited = self.replicas.inherit(state.group)
                if inherited is not None and inherited.epoch < group.epoch:
                    self.multicast.inherit(group, inherited, now)
                    self._trees.outbound.send_position(group.children.values(), group)

    def handle_root_query(self, _sender: Peer, message: RootQuery, _now: float) -> None:
        """Answer a query for the root of a group, or forward it."""
        self.epochs.handle_query(message, self._trees.groups.get(message.group))

    def handle_root_answer(self, sender: Peer, message: RootAnswer, now: float) -> None:
        """Handle the answer of the node closest to a key."""
        self.epochs.handle_answer(sender, message, now)

    def _believed(self, group: Group, frontier: Frontier, source: Peer, now: float) -> None:
        self.multicast.catch_up(group, frontier, source, now)
        self._trees.outbound.send_position(group.children.values(), group)

    def _settle(self, group: Group, now: float) -> None:
        self.attachment.settle(group, now)

    # Calls by the node's other parts.

    @property
    def revision(self) -> int:
        """A number that grows whenever this node may have gained or lost a neighbour in a tree."""
        return self._trees.index.revision

    def neighbours(self) -> dict[int, Peer]:
        """Return this node's neighbours and candidates in all trees. O(neighbours)."""
        return self._trees.index.neighbours()

    def renew(self, peer: Peer) -> None:
        """Renew a peer's address in every tree. O(edges with it)."""
        self._trees.index.renew(peer)

    def look_ahead(self, suspects: Iterable[int], now: float) -> None:
        """Prepare for the loss of suspected parents. O(trees with them above)."""
        if self._membership.is_active:
            self.attachment.look_ahead(suspects, now)

    def forget(self, node_id: int, now: float) -> bool:
        """Drop every tree edge shared with a peer, and seek new parents; return whether there were any. O(edges with
        it).
        """
        self.comparison.forget(node_id)
        return self.attachment.forget(node_id, now)

    def tables_changed(self, now: float) -> None:
        """Reconsider every tree whose root may have changed. O(groups)."""
        if self._membership.is_active:
            self.attachment.settle_all(now)

    def clear(self) -> None:
        """Forget every tree."""
        self.multicast.clear()
        for part in (self.epochs, self.replicas, self.acknowledgements, self.attachment, self.comparison):
            part.clear()
        self._trees.outbound.clear()
        self._trees.groups.clear()
        self._trees.index.clear()

    def flush(self) -> None:
        """Send all batches."""
        self._trees.outbound.flush()

    def timers(self) -> tuple[Callable[[], float | None], ...]:
        """Return functions that return when `handle_timer` is due."""
        parts = (self.attachment, self.epochs, self.multicast, self.acknowledgements)
        return tuple(part.next_timer for part in parts)

    def handle_timer(self, now: float) -> None:
        """Handle everything that is due."""
        for part in (self.attachment, self.epochs, self.multicast, self.acknowledgements):
            part.handle_timer(now)

    def check(self) -> None:
        """Assert every invariant."""
        self.attachment.check()
        self.epochs.check(self._trees.groups)
        self._trees.index.check(self._trees.groups)
        for part in (self.multicast, self.replicas, self.acknowledgements, self.comparison):
            part.check()
