"""Replicates roots' state to their possible successors: the nodes nearest to the root are the next nearest to the key.

A root gives its epoch, and each multicast when it sends it, to its REPLICAS nearest nodes, and its whole state to a
node that becomes one of them. So a successor knows above which epoch to begin, and can supply multicasts that its new
children lack. A root that meets a node closer to the key hands over its state.

Replicas of other roots are bounded in number and bytes; the oldest are dropped first.
"""

from dataclasses import dataclass

from overlay.pastry.tables.tables import PeerTables
from overlay.scribe.group import Group
from overlay.scribe.history import LOG_BYTES_MAX, History, LogBudget
from overlay.scribe.tree_state import TreeState
from overlay.wire.epoch import TreeEpoch
from overlay.wire.ids import Id
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    MulticastEntry,
    RootState,
)

REPLICAS = 3
STATES_MAX = 4_096
STATES_BYTES = 32 << 20


@dataclass(slots=True)
class _Kept:
    epoch: TreeEpoch
    history: History


class Replicas:
    """Replicates this node's roots and keeps replicas of others."""

    def __init__(self, trees: TreeState, tables: PeerTables) -> None:
        self._tables = tables
        self._outbound = trees.outbound
        self._outbox = trees.outbox
        self._log_budget = LogBudget(STATES_BYTES)
        self._kept: dict[Id, _Kept] = {}
        self._nearest: tuple[Peer, ...] = ()
        self._nearest_revision = -1

    # Own roots.

    def record(self, group: Group, entry: MulticastEntry) -> None:
        """Replicate a multicast that is in the log and about to be sent."""
        entries = (entry,) if entry.weight <= LOG_BYTES_MAX else ()
        state = RootState(group.key, group.epoch, group.frontier, entries)
        for peer in self._replicas():
            if peer.node_id in group.replicated:
                self._outbound.replicate(peer, state)
        self.spread(group)

    def spread(self, group: Group) -> None:
        """Send the whole state to new replicas."""
        replicas = self._replicas()
        for peer in replicas:
            if peer.node_id not in group.replicated:
                self.hand_over(group, peer)
        group.replicated = tuple(peer.node_id for peer in replicas)

    def spread_all(self, group: Group) -> None:
        """Send the whole state to all replicas, because an epoch has begun."""
        group.replicated = ()
        self.spread(group)

    def hand_over(self, group: Group, peer: Peer) -> None:
        """Send the whole state to one peer."""
        entries = () if group.history is None else group.history.entries
        self._outbound.replicate(peer, RootState(group.key, group.epoch, group.frontier, entries))

    def _replicas(self) -> tuple[Peer, ...]:
        if self._nearest_revision != self._tables.leaf_set_revision:
            self._nearest_revision = self._tables.leaf_set_revision
            self._nearest = self._tables.neighbours(REPLICAS)
        return self._nearest

    # Others' roots.

    def keep(self, sender: Peer, state: RootState) -> bool:
        """Keep a root's state; return False if it is not from the latest known root."""
        known = self._kept.pop(state.group, None)
        if state.epoch.root != sender.node_id or (known is not None and state.epoch < known.epoch):
            if known is not None:
                self._kept[state.group] = known
            self._outbox.counters.refused += 1
            return False
        history = History(state.group, self._log_budget) if known is None else known.history
        self._kept[state.group] = _Kept(state.epoch, history)
        for entry in state.entries:
            history.begin(entry.epoch, entry.sequence - 1)
            if entry.epoch in history.frontiers and not history.has(entry.epoch, entry.sequence):
                history.give_up(entry.epoch, entry.sequence - 1)
                history.add(entry)
        for epoch, sequence in state.frontier:
            history.begin(epoch, sequence)
            if epoch in history.frontiers:
                history.give_up(epoch, sequence)
        if len(self._kept) > STATES_MAX:
            self._drop(next(iter(self._kept)))
        return True

    def inherit(self, key: Id) -> RootState | None:
        """Return and drop the kept state of the previous root."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        state = RootState(key, kept.epoch, kept.history.frontier, kept.history.entries)
        self._drop(key)
        return state

    def _drop(self, key: Id) -> None:
        self._kept.pop(key).history.clear()

    def clear(self) -> None:
        """Drop all replicas."""
        for key in list(self._kept):
            self._drop(key)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._kept) <= STATES_MAX
        for kept in self._kept.values():
            kept.history.check()
