"""Attaches one node to its parent in each tree, and accepts or refuses children.

    OUTSIDE ── a subscription, a child ──▶ ASKING ── joined ──▶ ATTACHED ── parent lost ──▶ ORPHANED ──▶ ASKING

Attaching. A node that subscribes, or that gains a child, asks its next hop towards the key to be its parent
(GroupJoin). That node answers (GroupJoined) once it has a path to the root itself, and includes that path: so an answer
means that the whole path is in place. When a node's path changes it tells its children, who tell theirs.

No cycles. A node refuses a child that is on its own path to the root, or that it is asking to be its own parent. In the
first case the refusal names the refusing node's next hop, which that node watches: following these hops leads to the
root itself, which has no path. A cycle that arises all the same (from outdated paths) shows as a node's own id in the
path it is given, and is cut there.

Fan-out. A node with enough children refers a further one to one of them (`next_down`). A node that was referred too
often begins again at its next hop.

Hand-over. Whenever the leaf set changes, a root that is no longer the closest node gives its state to its next hop,
asks it to be its parent like any other node without one, and keeps its subtree; a node that has become the closest one
drops its parent and begins an epoch.

Leaving. A node with neither children nor a subscription leaves its parent. Unanswered requests are repeated. Edges on
which two peers disagree after lost messages are repaired when heartbeats show the difference.

Failures. A failed peer is removed as child and as parent. A node that has lost its parent asks its next hop, after a
random delay of up to REJOIN_JITTER_S so that orphans do not all come at once; its own subtree stays with it. While
a parent is suspected the next hop is watched already, so that an orphan does not have to discover several dead nodes
one after the other.
"""

from collections.abc import Iterable

from overlay.core.events import Attached, ChildAdded, ChildRemoved, ParentChanged
from overlay.core.random_source import jittered
from overlay.pastry.detection.watch import Watch
from overlay.pastry.membership.membership import Membership
from overlay.pastry.tables.tables import PeerTables
from overlay.scribe.acknowledgements import Acknowledgements
from overlay.scribe.epochs import Epochs
from overlay.scribe.group import FAN_OUT_MAX, Group, is_full_for, next_down
from overlay.scribe.multicast import Multicast
from overlay.scribe.replicas import Replicas
from overlay.scribe.tree_state import TreeState
from overlay.wire.epoch import NEVER
from overlay.wire.ids import Id, clockwise
from overlay.wire.messages import GroupJoin, GroupJoined, GroupLeave, GroupRefused
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import PATH_LENGTH_MAX, GroupRefusal, TreePosition, TreeStatus

GROUPS_MAX = 16_384
REDIRECTS_MAX = 16
GROUP_RETRY_S = 0.5
REJOIN_JITTER_S = 0.3


class TreeAttachment:
    """One node's attachment to its trees."""

    def __init__(
        self,
        trees: TreeState,
        tables: PeerTables,
        membership: Membership,
        watch: Watch,
        epochs: Epochs,
        replicas: Replicas,
        acknowledgements: Acknowledgements,
        multicast: Multicast,
    ) -> None:
        self._own = trees.own
        self._groups = trees.groups
        self._index = trees.index
        self._outbound = trees.outbound
        self._outbox = trees.outbox
        self._random = trees.random
        self._tables = tables
        self._membership = membership
        self._watch = watch
        self._epochs = epochs
        self._replicas = replicas
        self._acknowledgements = acknowledgements
        self._multicast = multicast
        self._unsettled: dict[Id, Group] = {}
        self._orphans: dict[Id, Group] = {}
        self._retry_at: float | None = None
        self._orphans_at: float | None = None

    def group(self, key: Id) -> Group:
        """Return the group, creating it if needed."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
        return group

    # Children.

    def handle_join(self, sender: Peer, message: GroupJoin, now: float) -> None:
        """Take the sender as a child in these groups, and see that this node has a path to their roots."""
        for status in message.statuses:
            self.join(sender, status, now)

    def join(self, sender: Peer, status: TreeStatus, now: float) -> None:
        """Take a peer as a child in one group, or refuse it."""
        group = self._groups.get(status.group)
        if group is None and len(self._groups) >= GROUPS_MAX:
            self._refuse(sender, status.group, None)
        elif group is not None and group.upstream(sender.node_id):
            self._refuse(sender, status.group, self._live_hop(group, now) if sender.node_id in group.path else None)
        elif group is not None and is_full_for(group, sender, status):
            self._refuse(sender, status.group, next_down(group, sender))
        else:
            self._adopt(self.group(status.group), sender, status, now)

    def _live_hop(self, group: Group, now: float) -> Peer | None:
        """Return the next hop and watch it, so that a dead one is not waited for."""
        hop = self._membership.next_hop(group.key)
        if hop is not None:
            self._watch.rely_on(hop, now)
        return hop

    def _refuse(self, sender: Peer, key: Id, redirect: Peer | None) -> None:
        self._outbox.counters.refused += 1
        self._outbound.refuse(sender, key, redirect)

    def _adopt(self, group: Group, child: Peer, status: TreeStatus, now: float) -> None:
        if child.node_id in group.children:
            group.children[child.node_id] = child
        else:
            self._index.add_child(group, child)
            self._outbox.emit(ChildAdded(group.key, child))
        self.note_epoch(group, status)
        if not group.attached:
            self.settle(group, now)
        else:
            self._outbound.send_position((child,), group)
        self._multicast.recover(group, status.frontier, child, now)

    def note_epoch(self, group: Group, status: TreeStatus) -> None:
        """Note the epoch that a child has heard of; a root takes a higher one, other nodes pass it up."""
        if not self._epochs.note(group, status.epoch):
            return
        if group.is_root:
            self._epochs.take(group, group.epoch)
            self._replicas.spread_all(group)
            self._outbound.send_position(group.children.values(), group)
        elif group.parent is not None:
            self._outbound.join(group.parent, group)

    def handle_leave(self, sender: Peer, message: GroupLeave, _now: float) -> None:
        """Remove a child."""
        for key in message.groups:
            group = self._groups.get(key)
            if group is not None and sender.node_id in group.children:
                self._drop_child(group, sender.node_id)
                self.prune(group)

    def _drop_child(self, group: Group, node_id: int) -> None:
        self._outbox.emit(ChildRemoved(group.key, self._index.remove_child(group, node_id)))

    # The parent.

    def handle_joined(self, sender: Peer, message: GroupJoined, now: float) -> None:
        """Adopt the sender as parent, or its new path, unless the path leads back to this node."""
        for position in message.positions:
            group = self._groups.get(position.group)
            path = (sender.node_id, *position.path)
            if group is None or not (group.is_candidate(sender) or group.is_parent(sender)):
                self._outbound.leave(sender, position.group)
            elif self._own.node_id in path or len(path) > PATH_LENGTH_MAX:
                self._outbound.leave(sender, position.group)
                self._lose(group, sender, now)
            else:
                self._follow(group, sender, position, path, now)

    def _follow(self, group: Group, parent: Peer, position: TreePosition, path: tuple[Id, ...], now: float) -> None:
        """Adopt the peer as parent with its path, and leave the previous parent."""
        is_new, was_attached, before = not group.is_parent(parent), group.attached, (group.path, group.epoch)
        if group.is_candidate(parent):
            self._index.ask(group, None)
            group.redirects = 0
            self._unsettled.pop(group.key, None)
        left = self._index.move(group, parent, path, attached=True)
        for node_id in set(path) & group.children.keys():
            self._drop_child(group, node_id)
        if is_new:
            if left is not None:
                self._outbound.leave(left, group.key)
            self._outbox.emit(ParentChanged(group.key, parent))
        if not was_attached:
            self._outbox.emit(Attached(group.key))
        if self._epochs.accept(group, position.epoch, position.frontier, parent, now):
            self._multicast.catch_up(group, position.frontier, parent, now)
        if not was_attached or (group.path, group.epoch) != before:
            self._outbound.send_position(group.children.values(), group)
        if is_new:
            self._acknowledgements.parent_changed(group, now)
        self.prune(group)

    def handle_refused(self, sender: Peer, message: GroupRefused, now: float) -> None:
        """Ask the peers named in the refusals; without one, ask again when the retry timer is due."""
        for refusal in message.refusals:
            group = self._groups.get(refusal.group)
            if group is not None and (group.is_candidate(sender) or group.is_parent(sender)):
                self._lose(group, sender, now)
                self._redirect(group, refusal, now)

    def _redirect(self, group: Group, refusal: GroupRefusal, now: float) -> None:
        redirect = refusal.redirect
        if redirect is None or redirect.node_id in (self._own.node_id, *group.children):
            return
        if self._tables.departed.has_tombstone(redirect, now) or redirect.node_id in self._watch.suspects:
            return
        if group.redirects < REDIRECTS_MAX:
            group.redirects += 1
            self._ask(group, redirect, now)

    def _lose(self, group: Group, peer: Peer, now: float) -> None:
        """Drop a candidate or parent that cannot be one; the retry timer finds another."""
        if group.is_candidate(peer):
            self._index.ask(group, None)
        if group.is_parent(peer):
            self._index.move(group, None, (), attached=False)
            self._outbox.emit(ParentChanged(group.key, None))
        self._unsettled[group.key] = group
        self._arm_retry(now)

    # Finding a place.

    def settle(self, group: Group, now: float) -> None:
        """Become root or ask for a parent, as the tables require."""
        if not self._membership.is_active:
            return
        hop = self._membership.next_hop(group.key)
        if hop is None:
            self._become_root(group, now)
        elif group.parent is None and group.candidate is None and group.key not in self._orphans:
            if group.is_root:
                self._replicas.hand_over(group, hop)
                self._index.move(group, None, (), attached=False)
            self._ask(group, hop, now)

    def settle_all(self, now: float) -> None:
        """Reconsider every tree whose root may have changed. O(groups)."""
        low, high = self._own_range()
        for group in list(self._groups.values()):
            if group.parent is None or clockwise(low, group.key) <= clockwise(low, high):
                self.settle(group, now)
            if group.is_root:
                self._replicas.spread(group)

    def _own_range(self) -> tuple[int, int]:
        """Return the range of keys to which this node may be closest."""
        own_id, leaf_set = self._own.node_id, self._tables.leaf_set
        if not (leaf_set.predecessors and leaf_set.successors):
            return own_id, own_id - 1
        before, after = leaf_set.predecessors[0].node_id, leaf_set.successors[0].node_id
        return before + clockwise(before, own_id) // 2, own_id + (clockwise(own_id, after) + 1) // 2

    def _become_root(self, group: Group, now: float) -> None:
        self._orphans.pop(group.key, None)
        self._drop_candidate(group)
        if group.is_root:
            return
        inherited = self._replicas.inherit(group.key)
        was_attached, left = group.attached, self._index.move(group, None, (), attached=True)
        self._epochs.take(group, NEVER if inherited is None else inherited.epoch)
        self._multicast.catch_up(group, (), None, now)
        if inherited is not None:
            self._multicast.inherit(group, inherited, now)
        self._replicas.spread_all(group)
        if left is not None:
            self._outbound.leave(left, group.key)
            self._outbox.emit(ParentChanged(group.key, None))
        if not was_attached:
            self._outbox.emit(Attached(group.key))
        self._outbound.send_position(group.children.values(), group)
        self._acknowledgements.parent_changed(group, now)

    def _ask(self, group: Group, peer: Peer, now: float) -> None:
        self._orphans.pop(group.key, None)
        self._index.ask(group, peer)
        group.asked_at = now
        self._unsettled[group.key] = group
        self._outbound.join(peer, group)
        self._arm_retry(now)

    def _retry(self, group: Group, now: float) -> None:
        """Start again from the routing tables."""
        hop = self._membership.next_hop(group.key)
        group.redirects = 0
        if hop is None:
            self._become_root(group, now)
            return
        if group.candidate is not None and group.candidate.node_id != hop.node_id:
            self._drop_candidate(group)
        self._ask(group, hop, now)

    def _drop_candidate(self, group: Group) -> None:
        self._unsettled.pop(group.key, None)
        if group.candidate is not None:
            self._outbound.leave(group.candidate, group.key)
            self._index.ask(group, None)

    def _arm_retry(self, now: float) -> None:
        if self._unsettled and self._retry_at is None:
            self._retry_at = now + jittered(GROUP_RETRY_S, self._random)

    def prune(self, group: Group) -> None:
        """Leave a tree that this node has no reason to be in."""
        if group.is_needed:
            return
        self._drop_candidate(group)
        if group.parent is not None:
            self._outbound.leave(group.parent, group.key)
            self._index.move(group, None, (), attached=False)
        self._orphans.pop(group.key, None)
        self._epochs.forget(group.key)
        self._multicast.forget(group)
        del self._groups[group.key]

    # Failures.

    def look_ahead(self, suspects: Iterable[int], now: float) -> None:
        """Ask other peers instead of suspects, and watch the next hop of groups whose parent is suspected."""
        for node_id in suspects:
            for group in self._index.asked(node_id):
                hop = self._membership.next_hop(group.key)
                if hop is None or hop.node_id != node_id:
                    self._retry(group, now)
            for group in self._index.above(node_id):
                self._live_hop(group, now)

    def forget(self, node_id: int, now: float) -> bool:
        """Drop every tree edge shared with a peer, and seek new parents; return whether there were any. O(edges with
        it).
        """
        above, below = {*self._index.above(node_id), *self._index.asked(node_id)}, self._index.below(node_id)
        for group in sorted(above, key=lambda group: group.key):
            self._orphan(group, node_id, now)
        for group in below:
            self._drop_child(group, node_id)
            self.prune(group)
        return bool(above or below)

    def _orphan(self, group: Group, node_id: int, now: float) -> None:
        """Drop a failed parent or candidate, and ask another after a random delay that spreads out its orphans."""
        if group.candidate is not None and group.candidate.node_id == node_id:
            self._index.ask(group, None)
            self._unsettled.pop(group.key, None)
        if group.parent is not None and group.parent.node_id == node_id:
            self._index.move(group, None, (), attached=False)
            group.previous = None
            self._outbox.emit(ParentChanged(group.key, None))
        if group.candidate is None and group.parent is None:
            self._orphans[group.key] = group
            if self._orphans_at is None:
                self._orphans_at = now + REJOIN_JITTER_S * self._random.random()

    # Timers.

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        if self._retry_at is None or self._orphans_at is None:
            return self._orphans_at if self._retry_at is None else self._retry_at
        return min(self._retry_at, self._orphans_at)

    def handle_timer(self, now: float) -> None:
        """Ask for new parents; repeat requests that were not answered."""
        if self._orphans_at is not None and now >= self._orphans_at:
            self._orphans_at = None
            orphans = list(self._orphans.values())
            self._orphans.clear()
            for group in orphans:
                self.settle(group, now)
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            for group in list(self._unsettled.values()):
                if group.candidate is None or now - group.asked_at >= GROUP_RETRY_S / 2:
                    self._retry(group, now)
            self._arm_retry(now)

    def clear(self) -> None:
        """Forget every tree."""
        self._unsettled.clear()
        self._orphans.clear()
        self._retry_at = self._orphans_at = None

    def check(self) -> None:
        """Assert every invariant."""
        assert sum(not group.subscribed for group in self._groups.values()) <= GROUPS_MAX
        for key, group in self._groups.items():
            assert key == group.key
            assert group.is_needed
            assert len(group.children) <= FAN_OUT_MAX
            group.check(self._own.node_id)
            assert group.candidate is None or self._unsettled.get(key) is group
            assert key not in self._orphans or (group.parent is None and group.candidate is None)
        for waiting in (self._unsettled, self._orphans):
            assert all(self._groups.get(key) is group for key, group in waiting.items())
        assert self._orphans_at is not None or not self._orphans
        assert self._retry_at is not None or not self._unsettled
