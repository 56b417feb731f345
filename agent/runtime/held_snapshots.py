"""Snapshots that have come to an agent before the function they belong to."""

from __future__ import annotations

from collections.abc import Iterator

from agent.runtime.messages import Snapshot

HELD_MAX = 1024
HELD_BYTES_MAX = 128 << 20


class HeldSnapshots:
    """Of one job, with the children they are from. What is too much is not held: the child sends it again."""

    def __init__(self) -> None:
        self._held: list[tuple[int, Snapshot]] = []
        self._bytes = 0

    def hold(self, child: int, snapshot: Snapshot) -> bool:
        """Keeps a snapshot; False where there is no room for it."""
        size = snapshot.size
        if len(self._held) >= HELD_MAX or self._bytes + size > HELD_BYTES_MAX:
            return False
        self._held.append((child, snapshot))
        self._bytes += size
        return True

    def take(self) -> list[tuple[int, Snapshot]]:
        """All of them, which are held no longer."""
        held, self._held, self._bytes = self._held, [], 0
        return held

    def __iter__(self) -> Iterator[Snapshot]:
        return (snapshot for _, snapshot in self._held)
