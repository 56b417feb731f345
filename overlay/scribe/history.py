"""One node's multicasts of one group: numbered, in order, with a log for nodes that lack some.

Theory. The root numbers multicasts 1, 2, 3... within its epoch. A node's gapless progress is its *frontier*: a number
for each of the last few epochs that had any. A multicast beyond the next number is *held* until the ones before it
arrive. Delivered multicasts stay in the log until newer ones evict them; neighbours pull from it.

A group without multicasts has no history, so it costs no memory.
"""

from collections.abc import Iterable

from overlay.wire.epoch import TreeEpoch
from overlay.wire.ids import Id
from overlay.wire.tree_fields import EPOCHS_MAX, LOG_ENTRIES_MAX, Frontier, MulticastEntry

LOG_BYTES_MAX = 1 << 20
ALL_LOGS_BYTES_MAX = 64 << 20


class LogBudget:
    """Memory shared by all logs of a node: beyond the bound, the oldest entry is evicted."""

    def __init__(self, bytes_max: int = ALL_LOGS_BYTES_MAX) -> None:
        self.used = 0
        self._bytes_max = bytes_max
        self._owners: dict[tuple[Id, TreeEpoch, int], History] = {}

    def take(self, owner: "History", entry: MulticastEntry) -> None:
        """Account for an entry, evicting the oldest ones if needed."""
        self._owners[owner.key, entry.epoch, entry.sequence] = owner
        self.used += entry.weight
        while self.used > self._bytes_max:
            (_, epoch, sequence), oldest = next(iter(self._owners.items()))
            oldest.discard(epoch, sequence)

    def release(self, owner: "History", entry: MulticastEntry) -> None:
        """Return the memory of an entry."""
        del self._owners[owner.key, entry.epoch, entry.sequence]
        self.used -= entry.weight


class History:
    """Frontier, log and held multicasts of one group.

    `targets`: others' known progress where it is further.
    """

    __slots__ = ("_bytes", "_entries", "_log_budget", "frontiers", "key", "targets")

    def __init__(self, key: Id, budget: LogBudget) -> None:
        self.key = key
        self.frontiers: dict[TreeEpoch, int] = {}
        self.targets: dict[TreeEpoch, int] = {}
        self._log_budget = budget
        self._entries: dict[tuple[TreeEpoch, int], MulticastEntry] = {}
        self._bytes = 0

    @property
    def frontier(self) -> Frontier:
        """Progress, by epoch."""
        return tuple(sorted(self.frontiers.items()))

    @property
    def entries(self) -> tuple[MulticastEntry, ...]:
        """The log and the held entries, in order."""
        return tuple(self._entries[place] for place in sorted(self._entries))

    def begin(self, epoch: TreeEpoch, sequence: int) -> None:
        """Start an epoch after a number; beyond the bound the lowest epoch is forgotten."""
        self.frontiers.setdefault(epoch, sequence)
        while len(self.frontiers) > EPOCHS_MAX:
            lowest = min(self.frontiers)
            del self.frontiers[lowest]
            self.targets.pop(lowest, None)
            for place in [place for place in self._entries if place[0] == lowest]:
                self.discard(*place)

    def has(self, epoch: TreeEpoch, sequence: int) -> bool:
        """Say whether a multicast was delivered, given up or is held."""
        return sequence <= self.frontiers.get(epoch, 0) or (epoch, sequence) in self._entries

    def add(self, entry: MulticastEntry) -> list[MulticastEntry]:
        """Add a multicast of an epoch that has begun; return the entries that are now next in order.

        An entry too large for the log is passed through but never held. O(entries returned).
        """
        epoch, sequence = entry.epoch, entry.sequence
        is_next = sequence == self.frontiers[epoch] + 1
        if entry.weight <= LOG_BYTES_MAX:
            self._keep(entry)
        if not is_next:
            self.expect(epoch, sequence)
            return []
        self.frontiers[epoch] = sequence
        return [entry, *self._ready(epoch)]

    def expect(self, epoch: TreeEpoch, sequence: int) -> None:
        """Note that multicasts up to a number exist."""
        if sequence > max(self.frontiers.get(epoch, 0), self.targets.get(epoch, 0)):
            self.targets[epoch] = sequence

    def _ready(self, epoch: TreeEpoch) -> list[MulticastEntry]:
        ready = []
        while (entry := self._entries.get((epoch, self.frontiers[epoch] + 1))) is not None:
            ready.append(entry)
            self.frontiers[epoch] += 1
        if self.targets.get(epoch, 0) <= self.frontiers[epoch]:
            self.targets.pop(epoch, None)
        return ready

    def missing(self) -> Frontier:
        """Return the frontier in the epochs in which others are further."""
        return tuple((epoch, self.frontiers[epoch]) for epoch in sorted(self.targets))

    def give_up(self, epoch: TreeEpoch, upto: int) -> tuple[int, list[MulticastEntry]]:
        """Give up missing multicasts up to a number; return how many, and the entries that are now next in order."""
        before = self.frontiers[epoch]
        held = sorted(place for place in self._entries if place[0] == epoch and before < place[1] <= upto)
        ready = [self._entries[place] for place in held]
        self.frontiers[epoch] = max(before, upto)
        return max(0, upto - before) - len(ready), [*ready, *self._ready(epoch)]

    def after(self, wanted: Frontier, bytes_max: int) -> tuple[tuple[MulticastEntry, ...], bool]:
        """Return the kept entries beyond these numbers, within a bound, and whether these are all of them."""
        starts, weight = dict(wanted), 0
        found: list[MulticastEntry] = []
        for entry in self.entries:
            if entry.epoch not in starts or entry.sequence <= starts[entry.epoch]:
                continue
            weight += entry.weight
            if found and weight > bytes_max:
                return tuple(found), False
            found.append(entry)
        return tuple(found), True

    def _keep(self, entry: MulticastEntry) -> None:
        self._entries[entry.epoch, entry.sequence] = entry
        self._bytes += entry.weight
        self._log_budget.take(self, entry)
        while len(self._entries) > LOG_ENTRIES_MAX or self._bytes > LOG_BYTES_MAX:
            self.discard(*next(iter(self._entries)))

    def discard(self, epoch: TreeEpoch, sequence: int) -> None:
        """Evict an entry from the log."""
        entry = self._entries.pop((epoch, sequence))
        self._bytes -= entry.weight
        self._log_budget.release(self, entry)

    def clear(self) -> None:
        """Release all memory."""
        for place in list(self._entries):
            self.discard(*place)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self.frontiers) <= EPOCHS_MAX
        assert self.targets.keys() <= self.frontiers.keys()
        assert all(target > self.frontiers[epoch] for epoch, target in self.targets.items())
        assert {epoch for epoch, _ in self._entries} <= self.frontiers.keys()
        assert len(self._entries) <= LOG_ENTRIES_MAX
        assert self._bytes == sum(entry.weight for entry in self._entries.values()) <= LOG_BYTES_MAX
        assert all((epoch, sequence + 1) not in self._entries for epoch, sequence in self.frontiers.items())


def merged(one: Iterable[tuple[TreeEpoch, int]], other: Iterable[tuple[TreeEpoch, int]]) -> dict[TreeEpoch, int]:
    """Return the further of two frontiers, by epoch."""
    together = dict(one)
    for epoch, sequence in other:
        together[epoch] = max(sequence, together.get(epoch, 0))
    return together
