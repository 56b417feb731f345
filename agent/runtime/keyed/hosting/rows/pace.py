"""The time that events of a type take at the split elements of a host, and from whom they come."""

from __future__ import annotations

from collections.abc import Collection

from agent.runtime.keyed.hosting.rows.incoming import RowStream
from agent.runtime.keyed.hosting.slot import ElementSlot

LOOK_S = 0.5
"""Interval over which events are counted."""
KEPT = 0.7
"""Weight of what is known at a look against what is new."""


class HostPace:
    """Measures one type, whose events go to these elements here."""

    def __init__(self, slots: Collection[ElementSlot]) -> None:
        self._slots = slots
        self.event_s = 0.0
        self._at = 0.0
        self._events = self._rows = 0
        self._busy_s = 0.0
        self._told: dict[RowStream, int] = {}
        self._shares: dict[RowStream, float] = {}

    def look(self, streams: Collection[RowStream], now: float) -> None:
        """Counts what has happened since the last look, if that is long ago."""
        if now < self._at + LOOK_S:
            return
        self._at = now
        events, busy_s = sum(one.events for one in self._slots), sum(one.busy_s for one in self._slots)
        if events > self._events and busy_s > self._busy_s:
            self.event_s = _mixed(self.event_s, (busy_s - self._busy_s) / (events - self._events))
        self._events, self._busy_s = events, busy_s
        came = {one: one.rows - self._told.get(one, 0) for one in streams}
        total = sum(came.values())
        if total > 0:
            self._shares = {one: _mixed(self._shares.get(one, 0.0), rows / total) for one, rows in came.items()}
        self._told = {one: one.rows for one in streams}

    def share(self, stream: RowStream) -> float:
        """The share of a stream in what has come lately."""
        return self._shares.get(stream, 0.0)


def _mixed(known: float, new: float) -> float:
    return KEPT * known + (1 - KEPT) * new if known else new
