"""What an agent has sent up a job's tree and the master has not committed: kept, in case it is wanted again.

A new parent gets all of it, as *loose* runs, since the one before may have passed it on (see
`agent.runtime.reduce.combiner`). The same parent gets again what it does not confirm: a link that breaks may lose
messages without either end noticing. What comes up from a child again is kept once, however often it comes: repeats do
not multiply from level to level."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from agent.runtime.messages.jobs import Snapshot

KEPT_BYTES_MAX = 256 << 20
"""In all trees of a job together. Past it the oldest are given up: their agents are missing then if this node's parent
dies."""
CONFIRM_S = 1.5
"""Unconfirmed for so long, and longer if it is large or others take longer, a snapshot is sent again; twice as long
each time."""
TIMES_OTHERS = 4.0
PAUSE_MAX_S = 20.0
FORGET_S = 5.0
"""After so long, that a confirmation was slow counts for half."""
BYTES_PER_S = 8 << 20


class AckLatency:
    """How long an agent's parents take to confirm. With many jobs whose panes end together that may be seconds; to send
    everything again meanwhile would make it longer still."""

    def __init__(self) -> None:
        self._slowest_s = self._at = 0.0

    def took(self, seconds: float, now: float) -> None:
        """A snapshot that was sent once was confirmed after so long."""
        self._slowest_s, self._at = max(seconds, self._recently_s(now)), now

    def pause_s(self, now: float) -> float:
        """So long a snapshot is waited for that is confirmed as late as any."""
        return min(PAUSE_MAX_S, max(CONFIRM_S, TIMES_OTHERS * self._recently_s(now)))

    def _recently_s(self, now: float) -> float:
        return self._slowest_s * float(0.5 ** ((now - self._at) / FORGET_S))


@dataclass(slots=True)
class _Kept:
    """`pauses`: how often as long as the first time it is waited for now; 0: it is to be sent."""

    snapshot: Snapshot
    size: int
    pauses: int = 0
    sent_at: float | None = None
    is_confirmed: bool = False


class RetransmitBuffer:
    """Snapshots of one epoch in the order they were made, in one of so many trees."""

    def __init__(self, pace: AckLatency, trees: int = 1) -> None:
        self.given_up = 0
        self._trees = trees
        self._pace = pace
        self._kept: dict[tuple[int, int, bytes], _Kept] = {}
        self._bytes = 0

    def keep(self, snapshot: Snapshot) -> None:
        """Holds a snapshot until it is committed; it counts as not sent. Of the same panes and agents there is one."""
        key = (snapshot.after, snapshot.upto, snapshot.contributors)
        if key in self._kept:
            return
        size = snapshot.size
        self._kept[key] = _Kept(snapshot, size)
        self._bytes += size
        while self._bytes > KEPT_BYTES_MAX // self._trees and len(self._kept) > 1:
            self._bytes -= self._kept.pop(next(iter(self._kept))).size
            self.given_up += 1

    def commit(self, frontier: int) -> None:
        """Frees what is out."""
        for key in [key for key, kept in self._kept.items() if kept.snapshot.upto <= frontier]:
            self._bytes -= self._kept.pop(key).size

    def unsent(self, now: float) -> list[Snapshot]:
        """What the parent is to get now: what is new, and what it should have confirmed long ago."""
        due = []
        for kept in self._kept.values():
            if not kept.is_confirmed and self._is_due(kept, now):
                kept.sent_at = now
                kept.pauses = max(1, 2 * kept.pauses)
                due.append(kept.snapshot)
        return due

    def _is_due(self, kept: _Kept, now: float) -> bool:
        if kept.sent_at is None or not kept.pauses:
            return True
        return now - kept.sent_at >= kept.pauses * (self._pace.pause_s(now) + kept.size / BYTES_PER_S)

    def parent_changed(self) -> None:
        """Another parent gets all of it; what the one before had may be on its way already, combined with others."""
        for kept in self._kept.values():
            if kept.sent_at is not None:
                kept.snapshot = msgspec.structs.replace(kept.snapshot, again=True)
            kept.pauses, kept.is_confirmed = 0, False

    def confirmed(self, after: int, upto: int, contributors: bytes, now: float) -> None:
        """The parent has this snapshot: it is not sent to it again."""
        kept = self._kept.get((after, upto, contributors))
        if kept is not None and kept.sent_at is not None:
            if not kept.is_confirmed and kept.pauses == 1:
                self._pace.took(now - kept.sent_at, now)
            kept.is_confirmed = True

    def loosen(self) -> None:
        """What is sent from now on goes up as it is: this agent leaves, and what waits here with it would be lost."""
        for kept in self._kept.values():
            kept.snapshot = msgspec.structs.replace(kept.snapshot, again=True)

    @property
    def is_confirmed(self) -> bool:
        """Whether the parent has everything."""
        return all(kept.is_confirmed for kept in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)
