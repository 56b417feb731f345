"""Keeps what an agent has sent up a job's tree until the master commits it, and retransmits what is not acknowledged.

A new parent gets all of it as *detached* runs, since the parent before may have passed it on (see
`agent.runtime.reduce.combiner`). The same parent gets again what it does not acknowledge: a link that breaks may lose
messages without either end noticing. What comes up from a child repeatedly is kept once: repeats do not multiply from
level to level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from agent.runtime.messages.jobs import Snapshot, SnapshotPart
from agent.runtime.model.latency.critical_path import with_way
from agent.runtime.reduce.parts import PRODUCTION, OutgoingRun, RunLimits

ACK_TIMEOUT_S = 1.5
"""Least time before an unacknowledged snapshot is retransmitted, longer if it is large or others take longer; doubles
each time."""
LATENCY_FACTOR = 4.0
"""Multiple of the slowest recent acknowledgement's time to wait before retransmitting."""
ACK_TIMEOUT_MAX_S = 20.0
WAY_WEIGHT = 0.25
"""Weight of the newest acknowledgement in the time of the way to a parent."""
LATENCY_HALF_LIFE_S = 5.0
"""Time after which a slow acknowledgement counts for half."""
BYTES_PER_S = 8 << 20
"""Bandwidth that a large snapshot is granted."""


class AckLatency:
    """Tracks how long an agent's parents take to acknowledge. With many jobs whose panes end together that may be
    seconds; retransmitting everything meanwhile would make it longer still."""

    def __init__(self) -> None:
        self._slowest_s = self._at = 0.0

    def observe(self, seconds: float, now: float) -> None:
        """Notes the time to the acknowledgement of a snapshot that was sent only once."""
        self._slowest_s, self._at = max(seconds, self._recently_s(now)), now

    def timeout_s(self, now: float) -> float:
        """Time to wait for the acknowledgement of a small snapshot."""
        return min(ACK_TIMEOUT_MAX_S, max(ACK_TIMEOUT_S, LATENCY_FACTOR * self._recently_s(now)))

    def _recently_s(self, now: float) -> float:
        return self._slowest_s * float(0.5 ** ((now - self._at) / LATENCY_HALF_LIFE_S))


@dataclass(slots=True)
class _Kept:
    """`timeouts`: the multiple of the first timeout to wait for now; 0: the snapshot is to be sent."""

    snapshot: Snapshot
    size: int
    timeouts: int = 0
    sent_at: float | None = None
    is_acknowledged: bool = False
    outgoing: OutgoingRun | None = None
    """The snapshot in parts, while it is on its way so."""


class RetransmitBuffer:
    """Snapshots of one epoch in the order they were made, in one of a job's `trees`.

    Past the bound of `limits` on bytes that are kept, the oldest acknowledged ones are dropped: their agents are
    missing if this node's parent dies. What is not acknowledged stays; its owner adds no more until the parent has it.
    """

    def __init__(self, latency: AckLatency, trees: int = 1, limits: RunLimits = PRODUCTION) -> None:
        self._limits = replace(limits, window_parts=max(1, limits.window_parts // trees))
        self._kept_max = limits.kept_bytes // trees
        self._latency = latency
        self._kept: dict[tuple[int, int, bytes], _Kept] = {}
        self._bytes = 0
        self._way_s: float | None = None
        """Time of the way to the parent, as of its last acknowledgements: half of what is not handling."""

    def add(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot, which is to be sent, until it is committed; one per set of panes and agents."""
        key = (snapshot.after, snapshot.upto, snapshot.contributors)
        if key in self._kept:
            return
        size = snapshot.size
        self._kept[key] = _Kept(snapshot, size)
        self._bytes += size
        if self._bytes > self._kept_max:
            self._drop_acknowledged()

    def _drop_acknowledged(self) -> None:
        """Drops the oldest snapshots that the parent has, until the bound is kept."""
        for key in [key for key, kept in self._kept.items() if kept.is_acknowledged]:
            if self._bytes <= self._kept_max:
                return
            self._bytes -= self._kept.pop(key).size

    @property
    def is_full(self) -> bool:
        """Whether the parent has so much to catch up with that nothing more is to be added."""
        if self._bytes <= self._kept_max:
            return False
        return sum(kept.size for kept in self._kept.values() if not kept.is_acknowledged) > self._kept_max

    def commit(self, frontier: int) -> None:
        """Frees what is published."""
        for key in [key for key, kept in self._kept.items() if kept.snapshot.upto <= frontier]:
            self._bytes -= self._kept.pop(key).size

    def due(self, now: float) -> list[Snapshot | SnapshotPart]:
        """The snapshots to send now: new ones, and those whose acknowledgement is overdue.

        What follows one that goes in parts waits for it: a parent takes a later pane for the end of all earlier ones.
        """
        due: list[Snapshot | SnapshotPart] = []
        for kept in self._kept.values():
            if not kept.is_acknowledged and kept.size > self._limits.whole_bytes:
                return due + self._parts(kept, now)
            if not kept.is_acknowledged and self._is_due(kept, now):
                if kept.sent_at is None:
                    kept.snapshot = self._with_way(kept.snapshot)
                kept.sent_at = now
                kept.timeouts = max(1, 2 * kept.timeouts)
                due.append(kept.snapshot)
        return due

    def _parts(self, kept: _Kept, now: float) -> list[SnapshotPart]:
        if kept.outgoing is None:
            kept.snapshot = self._with_way(kept.snapshot) if kept.sent_at is None else kept.snapshot
            kept.outgoing, kept.sent_at = OutgoingRun(kept.snapshot, self._limits), now
        window_s = self._limits.part_bytes * self._limits.window_parts / BYTES_PER_S
        return kept.outgoing.due(now, self._latency.timeout_s(now) + window_s)

    def _with_way(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with the time that its way will take, as it is sent first."""
        return msgspec.structs.replace(snapshot, path=with_way(snapshot.path, self._way_s or 0.0))

    def due_parts(self, now: float) -> list[SnapshotPart]:
        """The parts to send now of the snapshot that is on its way in parts, if one is."""
        return next((self._parts(kept, now) for kept in self._kept.values() if kept.outgoing is not None), [])

    def part_acknowledged(self, digest: bytes, upto: int, now: float) -> list[SnapshotPart]:
        """Notes how far the parent has a snapshot that goes in parts; returns a part to send again, if one was lost."""
        found = (kept.outgoing for kept in self._kept.values() if kept.outgoing is not None)
        outgoing = next((one for one in found if one.digest == digest), None)
        return [] if outgoing is None else outgoing.acknowledged(upto, now)

    def _is_due(self, kept: _Kept, now: float) -> bool:
        if kept.sent_at is None or not kept.timeouts:
            return True
        return now - kept.sent_at >= kept.timeouts * (self._latency.timeout_s(now) + kept.size / BYTES_PER_S)

    def parent_changed(self) -> None:
        """Makes all snapshots due again, detached, for a new parent: the old one may have passed them on, combined."""
        self._way_s = None
        for kept in self._kept.values():
            if kept.sent_at is not None:
                kept.snapshot = msgspec.structs.replace(kept.snapshot, detached=True)
            kept.timeouts, kept.is_acknowledged, kept.outgoing = 0, False, None

    def acknowledged(self, after: int, upto: int, contributors: bytes, now: float, handled_s: float = 0.0) -> bool:
        """Notes that the parent has this snapshot, which is not sent to it again, and what it has taken to handle it;
        whether anything waited for that."""
        kept = self._kept.get((after, upto, contributors))
        if kept is None or kept.sent_at is None:
            return False
        was_full, was_in_parts, kept.outgoing = self.is_full, kept.outgoing is not None, None
        if not kept.is_acknowledged and kept.timeouts == 1 and not was_in_parts:
            self._latency.observe(now - kept.sent_at, now)
            way_s = max(0.0, now - kept.sent_at - handled_s) / 2
            self._way_s = way_s if self._way_s is None else self._way_s + WAY_WEIGHT * (way_s - self._way_s)
        kept.is_acknowledged = True
        return was_in_parts or was_full

    def detach_all(self) -> None:
        """Sends every snapshot detached from now on, as this agent leaves: runs combined here would be lost."""
        for kept in self._kept.values():
            kept.snapshot, kept.outgoing = msgspec.structs.replace(kept.snapshot, detached=True), None

    def unacknowledged(self) -> int | None:
        """The last pane of the oldest snapshot that was sent and that the parent does not have, as far as is known."""
        sent = (kept for kept in self._kept.values() if kept.sent_at is not None and not kept.is_acknowledged)
        oldest = next(sent, None)
        return None if oldest is None else oldest.snapshot.upto

    @property
    def is_acknowledged(self) -> bool:
        """Whether the parent has everything."""
        return all(kept.is_acknowledged for kept in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)
