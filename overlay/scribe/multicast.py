"""Multicasts down the trees of Scribe: numbered by the root, forwarded at once, delivered in order, pulled if missing.

Only the root disseminates; a payload published elsewhere is first routed to it. The root numbers it within its epoch,
gives it to its replicas and sends it to its children; every node forwards it to its own children once, in whatever
order it arrives. A member delivers the multicasts of an epoch in order, each once.

Missing multicasts show as a gap in the numbers, or in a parent's reported frontier (when a node joins it, or when a
heartbeat has shown a difference). The node then asks the parent for them (Pull); a node that does not have all of them
passes the request up the tree. After PATIENCE_S, or when the answer shows that no node has them any more, they are
given up and counted.

A node that joins a tree starts at its parent's frontier. A node that is behind a child in past epochs asks the child:
so a multicast that only some nodes had when a root died goes up to the new root, and from there to all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from overlay.core.events import MulticastReceived
from overlay.core.random_source import jittered
from overlay.core.recent_ids import RecentIds
from overlay.scribe.acknowledgements import Acknowledgements
from overlay.scribe.epochs import Epochs
from overlay.scribe.group import Group
from overlay.scribe.history import History, LogBudget
from overlay.scribe.replicas import Replicas
from overlay.scribe.tree_state import TreeState
from overlay.wire.epoch import NEVER, TreeEpoch
from overlay.wire.ids import Id
from overlay.wire.messages import (
    HOPS_MAX,
    Disseminate,
    Publish,
    Pull,
    Supply,
)
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    LOG_ENTRIES_MAX,
    Frontier,
    MulticastEntry,
    RootState,
)

PULL_DELAY_S = 0.1
"""Delay before the first pull: a late multicast may only have been overtaken."""
PULL_RETRY_S = 0.5
PATIENCE_S = 10.0
"""Time until missing multicasts are given up; covers a root's replacement and pulls down a deep tree."""
SUPPLY_BYTES_MAX = 256 << 10


@dataclass(slots=True)
class _Pulling:
    """A group's open pull. `since`: when it last made progress, or had no source to ask."""

    group: Group
    source: Peer | None
    since: float
    at: float


class Multicast:
    """Publishes, forwards, delivers and pulls one node's multicasts. `settle` makes it a group's root if it should
    be.
    """

    def __init__(
        self,
        trees: TreeState,
        epochs: Epochs,
        replicas: Replicas,
        acknowledgements: Acknowledgements,
        settle: Callable[[Group, float], None],
    ) -> None:
        self._peer = trees.own
        self._groups = trees.groups
        self._index = trees.index
        self._outbound = trees.outbound
        self._outbox = trees.outbox
        self._random = trees.random
        self._epochs = epochs
        self._replicas = replicas
        self._acknowledgements = acknowledgements
        self._settle = settle
        self._log_budget = LogBudget()
        self._published = RecentIds()
        self._delivered = RecentIds()
        self._pulling: dict[Id, _Pulling] = {}
        self._at: float | None = None

    # Down the tree.

    def publish(self, message: Publish, now: float) -> None:
        """Number a multicast and send it down the tree, at the node closest to the key."""
        group = self._groups.get(message.group)
        if group is not None:
            self._settle(group, now)
        if not self._published.add(message.message_id):
            self._outbox.counters.duplicates += 1
        elif group is None or not group.is_root:
            self._outbox.counters.dropped += 1
            self._acknowledgements.report_no_root(message)
        else:
            timeout_ms = 0 if message.wanted is None else message.wanted.timeout_ms
            entry = MulticastEntry(group.epoch, group.sequence + 1, message.message_id, timeout_ms, message.payload)
            self._history(group).begin(group.epoch, 0)
            if message.wanted is not None:
                self._acknowledgements.begin(group, entry, self._peer, message.wanted, now)
            self._take(group, entry, now)
            self._replicas.record(group, entry)
            self._pass_on(group, entry, hops=1, source=self._peer)

    def handle_disseminate(self, sender: Peer, message: Disseminate, now: float) -> None:
        """Deliver and forward a multicast; tell a sender that is not the parent that this node is not its child."""
        group, entry = self._groups.get(message.group), message.entry
        if group is None or not (group.is_parent(sender) or group.is_candidate(sender)):
            self._outbound.leave(sender, message.group)
        if group is None or not group.may_disseminate(sender) or message.hops >= HOPS_MAX or group.is_root:
            self._outbox.counters.refused += 1
            return
        if not self._epochs.accept(group, entry.epoch, ((entry.epoch, entry.sequence),), sender, now):
            self._outbox.counters.refused += 1
            return
        if group.base == NEVER:
            self.catch_up(group, ((entry.epoch, max(0, entry.sequence - 1)),), sender, now)
        history = self._history(group)
        history.begin(entry.epoch, 0)
        if history.has(entry.epoch, entry.sequence):
            self._outbox.counters.duplicates += 1
            if entry.acknowledge_ms:
                self._acknowledgements.repeat(sender, entry)
            return
        if entry.acknowledge_ms:
            self._acknowledgements.begin(group, entry, sender, None, now)
        self._pass_on(group, entry, message.hops + 1, sender)
        self._take(group, entry, now)
        if history.targets:
            self._pull_soon(group, sender, now)

    def _pass_on(self, group: Group, entry: MulticastEntry, hops: int, source: Peer) -> None:
        receivers = [child for child in group.children.values() if child.node_id != source.node_id]
        if receivers:
            self._outbound.send_all(receivers, Disseminate(group=group.key, hops=hops, entry=entry))

    def _take(self, group: Group, entry: MulticastEntry, now: float) -> None:
        """Add a multicast of an epoch that has begun, and deliver the ones that are in order now."""
        self._published.add(entry.message_id)
        self._deliver(group, self._history(group).add(entry), now)

    def _deliver(self, group: Group, entries: Iterable[MulticastEntry], now: float) -> None:
        for entry in entries:
            if group.subscribed and entry.epoch >= group.base and self._delivered.add(entry.message_id):
                self._outbox.emit(MulticastReceived(group.key, entry.payload))
            if entry.acknowledge_ms:
                self._acknowledgements.delivered(entry, now)
        self._index.refresh(group)

    def _history(self, group: Group) -> History:
        if group.history is None:
            group.history = History(group.key, self._log_budget)
        return group.history

    # Missing multicasts.

    def catch_up(self, group: Group, frontier: Frontier, source: Peer | None, now: float) -> None:
        """Catch up with another node's frontier; a node new to the tree starts there."""
        is_new = group.base == NEVER
        if is_new:
            group.base = group.epoch
        if frontier:
            known = [one for one in frontier if one[0] <= group.epoch]
            starts = [0 if epoch >= group.base and not is_new else sequence for epoch, sequence in known]
            self._expect(group, known, starts, source, now)

    def recover(self, group: Group, frontier: Frontier, child: Peer, now: float) -> None:
        """Pull past epochs' multicasts that only a child may have, on behalf of the whole tree."""
        past = [one for one in frontier if one[0] < group.epoch]
        if past:
            starts = [0 if epoch >= group.base else max(0, sequence - LOG_ENTRIES_MAX) for epoch, sequence in past]
            self._expect(group, past, starts, child, now)

    def _expect(
        self,
        group: Group,
        frontier: Iterable[tuple[TreeEpoch, int]],
        starts: Iterable[int],
        source: Peer | None,
        now: float,
    ) -> None:
        """Begin the epochs of a frontier that are new here, each after its start, and pull what is missing."""
        history = self._history(group)
        for (epoch, sequence), start in zip(frontier, starts, strict=True):
            history.begin(epoch, start)
            if epoch in history.frontiers:
                history.expect(epoch, sequence)
        self._index.refresh(group)
        if history.targets:
            self._pull_soon(group, source, now)

    def inherit(self, group: Group, state: RootState, now: float) -> None:
        """Take over a previous root's multicasts, as the root of a higher epoch."""
        history = self._history(group)
        frontier = tuple(one for one in state.frontier if one[0] < group.epoch)
        entries = [entry for entry in state.entries if entry.epoch < group.epoch]
        for epoch, sequence in frontier:
            first = min((entry.sequence for entry in entries if entry.epoch == epoch), default=sequence + 1)
            history.begin(epoch, 0 if epoch >= group.base else first - 1)
        self.catch_up(group, frontier, None, now)
        self._add_all(group, entries, now)
        if history.targets:
            self._pull_soon(group, None, now)

    def _add_all(self, group: Group, entries: Iterable[MulticastEntry], now: float) -> bool:
        """Add pulled or inherited multicasts; return whether any was new."""
        history, any_new = self._history(group), False
        for entry in entries:
            if entry.epoch in history.frontiers and not history.has(entry.epoch, entry.sequence):
                any_new = True
                if entry.acknowledge_ms and not group.is_root:
                    self._acknowledgements.begin(group, entry, self._peer, None, now)
                self._take(group, entry, now)
        return any_new

    def _pull_soon(self, group: Group, source: Peer | None, now: float) -> None:
        pulling = self._pulling.get(group.key)
        if pulling is None:
            self._pulling[group.key] = _Pulling(group, source, now, now + PULL_DELAY_S)
        elif source is not None:
            pulling.source = source
        if self._at is None or self._at > now + PULL_DELAY_S:
            self._at = now + PULL_DELAY_S

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        return self._at

    def handle_timer(self, now: float) -> None:
        """Pull what is missing; give up what has been missing for too long."""
        if self._at is None or now < self._at:
            return
        for key, pulling in list(self._pulling.items()):
            if not self._lacks(pulling.group):
                del self._pulling[key]
            elif not pulling.group.attached:
                pulling.since = now
            elif now - pulling.since >= PATIENCE_S:
                self._give_up(pulling.group, dict(self._history(pulling.group).targets), now)
            elif now >= pulling.at:
                self._pull(pulling, now)
        self._pulling = {key: pulling for key, pulling in self._pulling.items() if self._lacks(pulling.group)}
        due = min((min(one.at, one.since + PATIENCE_S) for one in self._pulling.values()), default=None)
        self._at = None if due is None else max(due, now + PULL_DELAY_S)

    def _lacks(self, group: Group) -> bool:
        return group.history is not None and bool(group.history.targets)

    def _pull(self, pulling: _Pulling, now: float) -> None:
        group = pulling.group
        pulling.at = now + jittered(PULL_RETRY_S, self._random)
        if pulling.source is None or not group.is_neighbour(pulling.source):
            pulling.source = group.parent
            if not group.is_root:
                pulling.since = now
        if pulling.source is not None:
            wanted = self._history(group).missing()
            self._outbound.send(pulling.source, Pull(group=group.key, wanted=wanted, origin=self._peer, hops=0))

    def handle_pull(self, sender: Peer, message: Pull, _now: float) -> None:
        """Answer a pull if everything asked for is here or this is the end of the path; otherwise forward it."""
        group = self._groups.get(message.group)
        is_own = message.origin.node_id == self._peer.node_id
        if group is None or is_own or message.hops >= HOPS_MAX or not group.is_neighbour(sender):
            self._outbox.counters.refused += 1
            return
        parent = group.parent
        if parent is None or parent.node_id == message.origin.node_id or self._covers(group, message.wanted):
            entries, is_whole = self._history(group).after(message.wanted, SUPPLY_BYTES_MAX)
            asked = {epoch for epoch, _ in message.wanted}
            frontier = tuple(one for one in group.frontier if one[0] in asked)
            supply = Supply(group=group.key, frontier=frontier, entries=entries, is_whole=is_whole)
            self._outbound.send(message.origin, supply)
        else:
            onward = Pull(group=group.key, wanted=message.wanted, origin=message.origin, hops=message.hops + 1)
            self._outbound.send(parent, onward)

    def _covers(self, group: Group, wanted: Frontier) -> bool:
        """Say whether the log holds everything beyond these numbers up to this node's frontier."""
        if group.history is None:
            return False
        kept = {(entry.epoch, entry.sequence) for entry in group.history.entries}
        return all(
            upto - start <= LOG_ENTRIES_MAX and all((epoch, number) in kept for number in range(start + 1, upto + 1))
            for epoch, start in wanted
            for upto in (group.history.frontiers.get(epoch, 0),)
        )

    def handle_supply(self, sender: Peer, message: Supply, now: float) -> None:
        """Add the pulled multicasts; give up those that no node has any more."""
        pulling = self._pulling.get(message.group)
        asked = pulling is not None and pulling.source is not None and pulling.source.node_id == sender.node_id
        if pulling is None or not (asked or sender.node_id in pulling.group.path):
            self._outbox.counters.refused += 1
            return
        group = pulling.group
        any_new = self._add_all(group, message.entries, now)
        if message.is_whole:
            self._give_up(group, dict(message.frontier), now)
        if any_new:
            pulling.since = now
            self._outbound.send_position(group.children.values(), group)
        if not self._lacks(group):
            del self._pulling[message.group]
        elif any_new and not message.is_whole:
            self._pull(pulling, now)

    def _give_up(self, group: Group, upto: Mapping[TreeEpoch, int], now: float) -> None:
        history = self._history(group)
        for epoch, target in list(history.targets.items()):
            missed, ready = history.give_up(epoch, min(target, upto.get(epoch, 0)))
            if group.subscribed and epoch >= group.base:
                self._outbox.counters.missed += missed
            self._deliver(group, ready, now)

    def forget(self, group: Group) -> None:
        """Forget a tree."""
        self._pulling.pop(group.key, None)
        if group.history is not None:
            group.history.clear()

    def clear(self) -> None:
        """Forget every tree."""
        for group in self._groups.values():
            self.forget(group)
        self._pulling.clear()
        self._at = None

    def check(self) -> None:
        """Assert every invariant."""
        for key, pulling in self._pulling.items():
            assert self._groups.get(key) is pulling.group
        for key, group in self._groups.items():
            assert not self._lacks(group) or key in self._pulling
        assert self._at is not None or not self._pulling
