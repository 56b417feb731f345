"""What an agent has sent up a job's tree and the master has not committed: kept, in case it is wanted again.

A new parent gets all of it, as *loose* runs, since the one before may have passed it on (see `agent.runtime.combiner`).
The same parent gets again what it does not confirm: a link that breaks may lose messages without either end noticing.
What comes up from a child again is kept once, however often it comes: repeats do not multiply from level to level.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import msgspec

from agent.runtime.messages import Snapshot

KEPT_BYTES_MAX = 256 << 20
"""Past it the oldest are given up: their agents are missing then if this node's parent dies."""
CONFIRM_S = 1.5
"""Unconfirmed for so long, and longer if it is large, a snapshot is sent again; twice as long each time."""
BYTES_PER_S = 8 << 20
NEVER_SENT = -inf


@dataclass(slots=True)
class _Kept:
    snapshot: Snapshot
    size: int
    pause_s: float
    sent: bool = False
    send_at: float = NEVER_SENT


class Uplink:
    """Snapshots of one epoch in the order they were made."""

    def __init__(self) -> None:
        self.given_up = 0
        self._kept: dict[tuple[int, int, bytes], _Kept] = {}
        self._bytes = 0

    def keep(self, snapshot: Snapshot) -> None:
        """Holds a snapshot until it is committed; it counts as not sent. Of the same panes and agents there is one."""
        key = (snapshot.after, snapshot.upto, snapshot.contributors)
        if key in self._kept:
            return
        size = len(snapshot.state) + len(snapshot.counters)
        self._kept[key] = _Kept(snapshot, size, _pause_s(size))
        self._bytes += size
        while self._bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
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
            if now >= kept.send_at:
                if kept.sent:
                    kept.snapshot = msgspec.structs.replace(kept.snapshot, again=True)
                kept.sent, kept.send_at = True, now + kept.pause_s
                kept.pause_s *= 2
                due.append(kept.snapshot)
        return due

    def parent_changed(self) -> None:
        """Another parent gets all of it; what the one before had may be on its way already."""
        for kept in self._kept.values():
            kept.send_at, kept.pause_s = NEVER_SENT, _pause_s(kept.size)

    def confirmed(self, after: int, upto: int, contributors: bytes) -> None:
        """The parent has this snapshot: it is not sent to it again."""
        kept = self._kept.get((after, upto, contributors))
        if kept is not None and kept.sent:
            kept.send_at = inf

    def loosen(self) -> None:
        """What is sent from now on goes up as it is: this agent leaves, and what waits here with it would be lost."""
        for kept in self._kept.values():
            kept.snapshot = msgspec.structs.replace(kept.snapshot, again=True)

    @property
    def is_confirmed(self) -> bool:
        """Whether the parent has everything."""
        return all(kept.send_at == inf for kept in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)


def _pause_s(size: int) -> float:
    return CONFIRM_S + size / BYTES_PER_S
