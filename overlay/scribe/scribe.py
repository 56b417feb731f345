"""Scribe: groups as trees over Pastry routes (paper 2.3, "shared reducer trees"), and multicast down them.

Theory. A group is a key; its root is the active node numerically closest to it. A node that subscribes, or
that gains a child, asks its next hop towards the key to be its parent (GroupJoin); that node does the same,
until one is already in the tree. The union of these paths is the tree. Nodes on it that are not subscribed
are forwarders.

Attached. A parent answers (GroupJoined) when it has a path to the root itself, and gives that path: so an
answer means that the whole path stands. When a node's path changes it tells its children, who tell theirs.

No cycles. A node refuses a child that is on its own path to the root, or whom it is just asking to be its
parent. With the refusal comes the next hop of the one that refuses: following those leads to the root
itself, whom nobody can refuse for that reason. A cycle that arises all the same (from paths that were out
of date) shows as one's own id in the path one is given, and is cut there.

Hand-over. Whenever the leaf set changes, a root that no longer is the closest node asks its next hop, as
any node without a parent would, and brings its subtree along; a node that has become the closest one drops
its parent.

Leaving. A node with neither children nor a subscription leaves its parent. Requests without an answer are
repeated. Edges on which two peers disagree after lost messages are mended by the periodic exchange: each
tells the other what it takes their common edges to be (GroupDigest).

Failures. A peer that failed is nobody's child or parent. Who has lost its parent asks its next hop, as at the
beginning, after up to REJOIN_JITTER_S, so that many orphans do not come at the same moment; its own subtree
stays with it.

Multicasts go down these trees: `overlay.scribe.multicast`.
"""

from overlay.events import Attached, ChildAdded, ChildRemoved, ParentChanged
from overlay.ids import Id
from overlay.messages import (
    PATH_LENGTH_MAX,
    GroupDigest,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
)
from overlay.outbox import Outbox
from overlay.pastry.membership import Membership
from overlay.peer import Peer
from overlay.random_source import RandomSource, jittered
from overlay.scribe.digest import edge_digests
from overlay.scribe.group import Group, path_checksum
from overlay.scribe.multicast import Multicast

GROUPS_MAX = 16_384
CHILDREN_MAX = 4_096
REDIRECTS_MAX = 16
GROUP_RETRY_S = 0.5
GROUP_EXCHANGE_PERIOD_S = 5.0
REJOIN_JITTER_S = 0.3


class Scribe:
    """The groups of one node. `revision` grows whenever this node may have got another neighbour in a tree."""

    def __init__(self, membership: Membership, outbox: Outbox, random: RandomSource) -> None:
        self._membership = membership
        self._peer = membership.peer
        self._outbox = outbox
        self._random = random
        self._groups: dict[Id, Group] = {}
        self._unsettled: dict[Id, Group] = {}
        self._orphans: dict[Id, Group] = {}
        self.multicast = Multicast(self._peer, self._groups, outbox)
        self._retry_at: float | None = None
        self._exchange_at: float | None = None
        self._orphans_at: float | None = None
        self.revision = 0

    def subscribe(self, key: Id, now: float) -> None:
        """Become a member: multicasts are raised from the moment the node is attached."""
        group = self._group(key)
        group.subscribed = True
        self._settle(group, now)

    def unsubscribe(self, key: Id) -> None:
        """Stop being a member; the node stays on as a forwarder while it has children."""
        group = self._groups.get(key)
        if group is not None:
            group.subscribed = False
            self._prune(group)

    def parent(self, key: int) -> Peer | None:
        """Return the parent, None at the root and outside the tree."""
        group = self._groups.get(Id(key))
        return None if group is None else group.parent

    def children(self, key: int) -> tuple[Peer, ...]:
        """Return the children, in the order they came."""
        group = self._groups.get(Id(key))
        return () if group is None else tuple(group.children.values())

    def is_attached(self, key: int) -> bool:
        """Say whether the node has a path to the group's root, or is the root."""
        group = self._groups.get(Id(key))
        return group is not None and group.attached

    @property
    def groups(self) -> tuple[Id, ...]:
        """The keys of all groups whose trees the node is in."""
        return tuple(self._groups)

    def handle_join(self, sender: Peer, message: GroupJoin, now: float) -> None:
        """Take the sender as a child, and see to it that this node has a path to the root."""
        group = self._groups.get(message.group)
        if group is not None and group.upstream(sender.node_id):
            on_path = sender.node_id in group.path
            self._refuse(sender, message.group, self._membership.next_hop(message.group) if on_path else None)
        elif (len(self._groups) >= GROUPS_MAX) if group is None else (len(group.children) >= CHILDREN_MAX):
            self._refuse(sender, message.group, None)
        else:
            self._adopt(self._group(message.group), sender, now)

    def _refuse(self, sender: Peer, key: Id, redirect: Peer | None) -> None:
        self._outbox.counters.refused += 1
        self._outbox.send(sender, GroupRefused(group=key, redirect=redirect))

    def _adopt(self, group: Group, child: Peer, now: float) -> None:
        is_new = child.node_id not in group.children
        group.children[child.node_id] = child
        if is_new:
            self.revision += 1
            self._outbox.emit(ChildAdded(group.key, child))
        if not group.attached:
            self._settle(group, now)
        else:
            self._outbox.send(child, GroupJoined(group=group.key, path=group.path))

    def handle_joined(self, sender: Peer, message: GroupJoined, now: float) -> None:
        """Take the sender as the parent it says it is, or follow its path, unless that leads back here."""
        group = self._groups.get(message.group)
        if group is None or not (group.is_candidate(sender) or group.is_parent(sender)):
            self._outbox.send(sender, GroupLeave(group=message.group))
            return
        path = (sender.node_id, *message.path)
        if self._peer.node_id in path or len(path) > PATH_LENGTH_MAX:
            self._outbox.send(sender, GroupLeave(group=message.group))
            self._lose(group, sender, now)
            return
        self._follow(group, sender, path)

    def _follow(self, group: Group, parent: Peer, path: tuple[Id, ...]) -> None:
        """Make the peer the parent and its path this node's; say goodbye to the one before."""
        is_new, was_attached, old_path = not group.is_parent(parent), group.attached, group.path
        if group.is_candidate(parent):
            group.candidate = None
            group.redirects = 0
            self._unsettled.pop(group.key, None)
        left = group.move_to(parent, path, attached=True)
        self.revision += is_new
        for node_id in set(path) & group.children.keys():
            self._drop_child(group, node_id)
        if is_new:
            if left is not None:
                self._outbox.send(left, GroupLeave(group=group.key))
            self._outbox.emit(ParentChanged(group.key, parent))
        if not was_attached:
            self._outbox.emit(Attached(group.key))
        if path != old_path or not was_attached:
            self._tell_children(group)
        self._prune(group)

    def handle_refused(self, sender: Peer, message: GroupRefused, now: float) -> None:
        """Ask whom the refusal points to; without a pointer, ask again when the retry timer is due."""
        group = self._groups.get(message.group)
        if group is None or not (group.is_candidate(sender) or group.is_parent(sender)):
            return
        redirect = message.redirect
        self._lose(group, sender, now)
        if redirect is None or redirect.node_id == self._peer.node_id or group.redirects >= REDIRECTS_MAX:
            return
        group.redirects += 1
        self._ask(group, redirect, now)

    def handle_leave(self, sender: Peer, message: GroupLeave, _now: float) -> None:
        """Remove a child."""
        group = self._groups.get(message.group)
        if group is not None and sender.node_id in group.children:
            self._drop_child(group, sender.node_id)
            self._prune(group)

    def handle_digest(self, sender: Peer, message: GroupDigest, now: float) -> None:
        """Mend the edges on which the sender's view differs from this node's."""
        for key in message.children:
            group = self._groups.get(key)
            if group is None or not (group.is_parent(sender) or group.is_candidate(sender)):
                self._outbox.send(sender, GroupLeave(group=key))
        for key, checksum in message.parents:
            group = self._groups.get(key)
            if group is None or sender.node_id not in group.children:
                self.handle_join(sender, GroupJoin(group=key), now)
            elif group.attached and path_checksum(group.path) != checksum:
                self._outbox.send(sender, GroupJoined(group=key, path=group.path))

    def send_digests(self, only: Peer | None = None) -> None:
        """Tell every neighbour in any tree, or one, which edges this node believes to share with it. O(edges)."""
        for peer, digest in edge_digests(self._groups.values(), only):
            self._outbox.send(peer, digest)

    def forget(self, node_id: int, now: float) -> bool:
        """Drop every tree edge shared with a peer, and seek new parents; return whether there was one. O(groups)."""
        found = False
        for group in list(self._groups.values()):
            if group.previous is not None and group.previous.node_id == node_id:
                group.previous = None
            is_above = any(one is not None and one.node_id == node_id for one in (group.parent, group.candidate))
            if is_above:
                self._orphan(group, node_id, now)
            if node_id in group.children:
                self._drop_child(group, node_id)
                self._prune(group)
            found = found or is_above
        return found

    def _orphan(self, group: Group, node_id: int, now: float) -> None:
        """Go without a peer above that is no more, and ask another soon: not all that lost it at once."""
        if group.candidate is not None and group.candidate.node_id == node_id:
            group.candidate = None
            self._unsettled.pop(group.key, None)
        if group.parent is not None and group.parent.node_id == node_id:
            group.move_to(None, (), attached=False)
            group.previous = None
            self._outbox.emit(ParentChanged(group.key, None))
        if group.candidate is None and group.parent is None:
            self._orphans[group.key] = group
            if self._orphans_at is None:
                self._orphans_at = now + REJOIN_JITTER_S * self._random.random()

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date in every tree. O(groups)."""
        for group in self._groups.values():
            group.renew(peer)

    def neighbours(self) -> dict[int, Peer]:
        """Return whoever is next to this node in any tree, or asked to be. O(edges)."""
        found: dict[int, Peer] = {}
        for group in self._groups.values():
            found.update(group.children)
            for above in (group.parent, group.candidate):
                if above is not None:
                    found[above.node_id] = above
        return found

    def clear(self) -> None:
        """Be in no tree."""
        self._groups.clear()
        self._unsettled.clear()
        self._orphans.clear()
        self._retry_at = self._exchange_at = self._orphans_at = None
        self.revision += 1

    def tables_changed(self, now: float) -> None:
        """See after every tree whose root may now be another node. O(groups)."""
        if not self._membership.is_active:
            return
        if self._exchange_at is None:
            self._exchange_at = now + jittered(GROUP_EXCHANGE_PERIOD_S, self._random)
        for group in list(self._groups.values()):
            self._settle(group, now)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        timers = (self._retry_at, self._exchange_at, self._orphans_at)
        return min((timer for timer in timers if timer is not None), default=None)

    def handle_timer(self, now: float) -> None:
        """Ask again where nobody answered; tell tree neighbours what edges are shared with them."""
        if self._orphans_at is not None and now >= self._orphans_at:
            self._orphans_at = None
            orphans, self._orphans = self._orphans, {}
            for group in orphans.values():
                self._settle(group, now)
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            for group in list(self._unsettled.values()):
                if group.candidate is None or now - group.asked_at >= GROUP_RETRY_S / 2:
                    self._retry(group, now)
            self._arm_retry(now)
        if self._exchange_at is not None and now >= self._exchange_at:
            self._exchange_at = now + jittered(GROUP_EXCHANGE_PERIOD_S, self._random)
            self.send_digests()

    def _group(self, key: Id) -> Group:
        if key not in self._groups:
            self._groups[key] = Group(key)
        return self._groups[key]

    def _settle(self, group: Group, now: float) -> None:
        """Make the node root, or let it ask for a parent, where the tables say that it should."""
        if not self._membership.is_active:
            return
        hop = self._membership.next_hop(group.key)
        if hop is None:
            self._become_root(group)
        elif group.parent is None and group.candidate is None and group.key not in self._orphans:
            group.attached = False
            self._ask(group, hop, now)

    def _become_root(self, group: Group) -> None:
        self._orphans.pop(group.key, None)
        self._drop_candidate(group)
        if group.is_root:
            return
        was_attached = group.attached
        left = group.move_to(None, (), attached=True)
        if left is not None:
            self._outbox.send(left, GroupLeave(group=group.key))
            self._outbox.emit(ParentChanged(group.key, None))
        if not was_attached:
            self._outbox.emit(Attached(group.key))
        self._tell_children(group)

    def _ask(self, group: Group, peer: Peer, now: float) -> None:
        self.revision += 1
        self._orphans.pop(group.key, None)
        group.candidate = peer
        group.asked_at = now
        self._unsettled[group.key] = group
        self._outbox.send(peer, GroupJoin(group=group.key))
        self._arm_retry(now)

    def _retry(self, group: Group, now: float) -> None:
        """Start again from the routing tables."""
        hop = self._membership.next_hop(group.key)
        group.redirects = 0
        if hop is None:
            self._become_root(group)
            return
        if group.candidate is not None and group.candidate.node_id != hop.node_id:
            self._drop_candidate(group)
        self._ask(group, hop, now)

    def _drop_candidate(self, group: Group) -> None:
        self._unsettled.pop(group.key, None)
        if group.candidate is not None:
            self._outbox.send(group.candidate, GroupLeave(group=group.key))
            group.candidate = None

    def _lose(self, group: Group, peer: Peer, now: float) -> None:
        """Go without a candidate or parent that cannot be one; the retry timer looks for another."""
        if group.is_candidate(peer):
            group.candidate = None
        if group.is_parent(peer):
            group.move_to(None, (), attached=False)
            self._outbox.emit(ParentChanged(group.key, None))
        self._unsettled[group.key] = group
        self._arm_retry(now)

    def _arm_retry(self, now: float) -> None:
        if self._unsettled and self._retry_at is None:
            self._retry_at = now + jittered(GROUP_RETRY_S, self._random)

    def _tell_children(self, group: Group) -> None:
        if group.children:
            self._outbox.send_all(group.children.values(), GroupJoined(group=group.key, path=group.path))

    def _drop_child(self, group: Group, node_id: int) -> None:
        self.revision += 1
        self._outbox.emit(ChildRemoved(group.key, group.children.pop(node_id)))

    def _prune(self, group: Group) -> None:
        """Leave a tree there is no reason to be in."""
        if group.is_needed:
            return
        self._drop_candidate(group)
        if group.parent is not None:
            self._outbox.send(group.parent, GroupLeave(group=group.key))
        self._orphans.pop(group.key, None)
        del self._groups[group.key]
        self.revision += 1

    def check(self) -> None:
        """Assert every invariant."""
        assert sum(not group.subscribed for group in self._groups.values()) <= GROUPS_MAX
        for key, group in self._groups.items():
            assert key == group.key
            assert group.is_needed
            assert len(group.children) <= CHILDREN_MAX
            group.check(self._peer.node_id)
            assert group.candidate is None or self._unsettled.get(key) is group
            assert key not in self._orphans or (group.parent is None and group.candidate is None)
        for waiting in (self._unsettled, self._orphans):
            assert all(self._groups.get(key) is group for key, group in waiting.items())
        assert self._orphans_at is not None or not self._orphans
        assert self._retry_at is not None or not self._unsettled
