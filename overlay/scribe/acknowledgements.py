"""Gathers acknowledgements of a multicast up the tree.

Theory. Every node reports to its parent the ids of the nodes in its subtree that have the multicast, itself included,
in the order in which it learnt of them, and the nodes it still waits for. A leaf reports at once; other nodes when all
nodes below them have reported, or after BATCH_S what is known by then: so a root of ten thousand members hears from its
children, not from all members. Ids form sets: a node with a new parent reports everything again, and no node is counted
twice. A report states its offset in the sender's order; a parent that lacks earlier ids, or has not heard from a child
for AGAIN_S, asks for them.

The root is done when no node is waited for, or at the deadline, when the nodes still waited for count as missing; nodes
below them may be missing too.
"""

from collections.abc import Iterable, Mapping
from math import inf

from overlay.core.events import MulticastAcknowledged
from overlay.scribe.group import Group
from overlay.scribe.tree_state import TreeState
from overlay.wire.ids import ID_BYTES, Id, id_from_bytes, id_to_bytes
from overlay.wire.messages import (
    IDS_PER_MESSAGE_MAX,
    Acknowledge,
    AcknowledgeAgain,
    AcknowledgeResult,
    Disseminate,
    Publish,
)
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    MulticastEntry,
    Wanted,
)

OPEN_MAX = 64
BATCH_S = 0.075
AGAIN_S = 0.5
GRACE_S = 2.0
"""Time after the deadline for which nodes keep reports and the publisher waits for the root's result."""


class _Below:
    """One child's reports: how much of its order is known, and which nodes it waits for."""

    __slots__ = ("asked_at", "known", "waiting")

    def __init__(self, child: int, now: float) -> None:
        self.known = 0
        self.waiting = frozenset((Id(child),))
        self.asked_at = now


class _Open:
    """One open multicast at one node. `publisher`: at the root, the peer that wants the result; else None."""

    __slots__ = ("below", "entry", "flush_at", "ids", "key", "publisher", "sent", "undelivered", "until")

    def __init__(self, key: Id, entry: MulticastEntry, until: float, publisher: Peer | None) -> None:
        self.key = key
        self.entry = entry
        self.until = until
        self.publisher = publisher
        self.ids: dict[Id, bool] = {}
        self.sent = 0
        self.below: dict[int, _Below] = {}
        self.undelivered: frozenset[Id] = frozenset()
        self.flush_at = inf

    def waiting(self) -> frozenset[Id]:
        """Return the nodes that have not reported. O(children and the nodes they wait for)."""
        named = self.undelivered.union(*(below.waiting for below in self.below.values()))
        return frozenset(node_id for node_id in named if node_id not in self.ids)

    def due(self) -> float:
        """Return when the timer is due for this multicast."""
        again = min((below.asked_at + AGAIN_S for below in self.below.values() if below.waiting), default=inf)
        return min(self.flush_at, self.until, again)


class Acknowledgements:
    """Tracks a node's open multicasts that are to be acknowledged."""

    def __init__(self, trees: TreeState) -> None:
        self._peer = trees.own
        self._groups = trees.groups
        self._outbound = trees.outbound
        self._outbox = trees.outbox
        self._open: dict[int, _Open] = {}
        self._awaited: dict[int, tuple[Id, float]] = {}

    # At the publisher.

    def expect(self, message: Publish, now: float) -> None:
        """Wait for the root's result for a multicast of this node."""
        if message.wanted is None:
            return
        if len(self._awaited) >= OPEN_MAX:
            self._outbox.counters.dropped += 1
            self._emit(message.group, message.message_id, (), ())
            return
        self._awaited[message.message_id] = (message.group, now + message.wanted.timeout_ms / 1000 + GRACE_S)

    def handle_result(self, _sender: Peer, message: AcknowledgeResult, _now: float) -> None:
        """Emit the root's result, if it is awaited."""
        awaited = self._awaited.pop(message.message_id, None)
        received, missing = _unpacked(message.received), _unpacked(message.missing)
        if awaited is None or awaited[0] != message.group or received is None or missing is None:
            self._outbox.counters.refused += 1
        else:
            self._emit(message.group, message.message_id, received, missing)

    # In the tree.

    def begin(self, group: Group, entry: MulticastEntry, source: Peer, wanted: Wanted | None, now: float) -> None:
        """Track a multicast that has arrived or that the root is sending; at the root, `wanted` names the publisher."""
        if entry.message_id in self._open:
            return
        if len(self._open) >= OPEN_MAX:
            self._outbox.counters.dropped += 1
            if wanted is not None:
                self._report_result(group.key, entry.message_id, wanted.publisher, (), ())
            return
        until = now + entry.acknowledge_ms / 1000 + (GRACE_S if wanted is None else 0.0)
        one = _Open(group.key, entry, until, None if wanted is None else wanted.publisher)
        self._open[entry.message_id] = one
        one.below = {node_id: _Below(node_id, now) for node_id in group.children if node_id != source.node_id}
        if group.subscribed:
            one.undelivered = frozenset((self._peer.node_id,))
        else:
            one.ids[self._peer.node_id] = False
        self._changed(one, now)

    def delivered(self, entry: MulticastEntry, now: float) -> None:
        """Note that this node has delivered a multicast."""
        one = self._open.get(entry.message_id)
        if one is not None and one.undelivered:
            one.undelivered = frozenset()
            one.ids[self._peer.node_id] = True
            self._changed(one, now)

    def report_no_root(self, message: Publish) -> None:
        """Report an empty result: there is no tree."""
        if message.wanted is not None:
            self._report_result(message.group, message.message_id, message.wanted.publisher, (), ())

    def parent_changed(self, group: Group, now: float) -> None:
        """Report everything to the group's new parent; stop tracking at a new root."""
        for one in [one for one in self._open.values() if one.key == group.key]:
            if group.is_root and one.publisher is None:
                del self._open[one.entry.message_id]
            else:
                one.sent = 0
                self._changed(one, now)

    def repeat(self, sender: Peer, entry: MulticastEntry) -> None:
        """Report everything again: the parent has repeated the multicast because it lacks a report."""
        self._repeat_report(sender, entry.message_id, 0)

    def handle_again(self, sender: Peer, message: AcknowledgeAgain, _now: float) -> None:
        """Repeat the report from the offset on."""
        self._repeat_report(sender, message.message_id, message.offset)

    def _repeat_report(self, sender: Peer, message_id: int, offset: int) -> None:
        one = self._open.get(message_id)
        group = None if one is None else self._groups.get(one.key)
        if one is not None and group is not None and group.is_parent(sender):
            self._report(sender, one, min(offset, len(one.ids)))

    def handle_acknowledge(self, sender: Peer, message: Acknowledge, now: float) -> None:
        """Handle a child's report."""
        group, one = self._groups.get(message.group), self._open.get(message.message_id)
        ids, waiting = _unpacked(message.ids), _unpacked(message.waiting)
        if group is None or sender.node_id not in group.children or (one is not None and one.key != group.key):
            self._outbox.counters.refused += 1
        elif one is None and group.parent is not None:
            # The child has moved here from elsewhere; this node never saw the multicast.
            self._outbound.send(group.parent, message)
        elif one is None:
            self._outbox.counters.refused += 1
        elif ids is None or waiting is None or len(ids) != len(message.members):
            self._outbox.counters.malformed += 1
        else:
            below = one.below.setdefault(sender.node_id, _Below(sender.node_id, now))
            self._take(one, below, message.offset, dict(zip(ids, message.members, strict=True)))
            if message.offset <= below.known:
                below.waiting = frozenset(waiting[:IDS_PER_MESSAGE_MAX])
            else:
                self._ask_again(sender, one, below, now)
            self._changed(one, now)

    def _take(self, one: _Open, below: _Below, offset: int, ids: Mapping[Id, int]) -> None:
        if offset <= below.known:
            below.known = max(below.known, offset + len(ids))
        for node_id, member in ids.items():
            if len(one.ids) < IDS_PER_MESSAGE_MAX or node_id in one.ids:
                one.ids.setdefault(node_id, bool(member))

    def _changed(self, one: _Open, now: float) -> None:
        """Report soon, or at once if no node is waited for."""
        one.flush_at = min(one.flush_at, now + BATCH_S)
        if not one.waiting():
            self._flush(one)

    def _flush(self, one: _Open) -> None:
        one.flush_at = inf
        group = self._groups.get(one.key)
        if one.publisher is not None:
            if not one.waiting():
                self._finish(one)
        elif group is not None and group.parent is not None:
            self._report(group.parent, one, one.sent)

    def _report(self, parent: Peer, one: _Open, offset: int) -> None:
        unsent = list(one.ids.items())[offset:]
        one.sent = len(one.ids)
        report = Acknowledge(
            group=one.key,
            message_id=one.entry.message_id,
            offset=offset,
            ids=_packed(node_id for node_id, _ in unsent),
            members=bytes(member for _, member in unsent),
            waiting=_packed(sorted(one.waiting())[:IDS_PER_MESSAGE_MAX]),
        )
        self._outbound.send(parent, report)

    def _finish(self, one: _Open) -> None:
        assert one.publisher is not None
        del self._open[one.entry.message_id]
        received = [node_id for node_id, is_member in one.ids.items() if is_member]
        self._report_result(one.key, one.entry.message_id, one.publisher, received, sorted(one.waiting()))

    def _report_result(
        self, key: Id, message_id: int, publisher: Peer, received: Iterable[Id], missing: Iterable[Id]
    ) -> None:
        """Emit the result at the root, and send it to the publisher."""
        received, missing = list(received), list(missing)
        self._awaited.pop(message_id, None)
        self._emit(key, message_id, received, missing)
        if publisher.node_id != self._peer.node_id:
            result = AcknowledgeResult(
                group=key, message_id=message_id, received=_packed(received), missing=_packed(missing)
            )
            self._outbound.send(publisher, result)

    def _emit(self, key: Id, message_id: int, received: Iterable[Id], missing: Iterable[Id]) -> None:
        self._outbox.emit(MulticastAcknowledged(key, message_id, frozenset(received), frozenset(missing)))

    # Timers.

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        if not self._open and not self._awaited:
            return None
        due = min((one.due() for one in self._open.values()), default=inf)
        due = min(due, min((until for _, until in self._awaited.values()), default=inf))
        return None if due == inf else due

    def handle_timer(self, now: float) -> None:
        """Send reports that are due, ask silent children, and end multicasts whose time is over."""
        for one in list(self._open.values()):
            if now >= one.until:
                self._expire(one)
                continue
            if now >= one.flush_at:
                self._flush(one)
            self._ask_silent(one, now)
        for message_id, (key, until) in list(self._awaited.items()):
            if now >= until:
                del self._awaited[message_id]
                self._emit(key, message_id, (), ())

    def _expire(self, one: _Open) -> None:
        if one.publisher is not None:
            self._finish(one)
        else:
            del self._open[one.entry.message_id]

    def _ask_silent(self, one: _Open, now: float) -> None:
        """Repeat the multicast to children that have not reported at all; ask the others for the missing ids."""
        group = self._groups.get(one.key)
        for node_id, below in one.below.items():
            if not below.waiting or now < below.asked_at + AGAIN_S:
                continue
            below.asked_at = now
            child = None if group is None else group.children.get(node_id)
            if child is not None and group is not None:
                if node_id in below.waiting and not below.known:
                    again = Disseminate(group=one.key, hops=len(group.path) + 1, entry=one.entry)
                    self._outbound.send(child, again)
                else:
                    self._ask_again(child, one, below, now)

    def _ask_again(self, child: Peer, one: _Open, below: _Below, now: float) -> None:
        below.asked_at = now
        again = AcknowledgeAgain(group=one.key, message_id=one.entry.message_id, offset=below.known)
        self._outbound.send(child, again)

    def clear(self) -> None:
        """Forget all open multicasts."""
        self._open.clear()

    def check(self) -> None:
        """Assert every invariant."""
        assert max(len(self._open), len(self._awaited)) <= OPEN_MAX
        for one in self._open.values():
            assert one.sent <= len(one.ids) <= IDS_PER_MESSAGE_MAX


def _packed(ids: Iterable[Id]) -> bytes:
    return b"".join(map(id_to_bytes, ids))


def _unpacked(data: bytes) -> list[Id] | None:
    """Return the ids; None when the length is not a multiple of an id's or an id occurs twice."""
    if len(data) % ID_BYTES:
        return None
    ids = [id_from_bytes(data[start : start + ID_BYTES]) for start in range(0, len(data), ID_BYTES)]
    return ids if len(set(ids)) == len(ids) else None
