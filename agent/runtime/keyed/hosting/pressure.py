"""Overload: state over the memory allowed, and circles that are full, or that bounded input never leaves."""

from __future__ import annotations

from collections.abc import Sequence

from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.rows.outgoing import NEVER

EVICT_S = 1.0
ROUND_S = 600.0
"""Time for which events may go round in a circle of a bounded job after the last one has come into it."""
EVICTED_TO = 0.9
"""Share of the memory allowed that is in use after an eviction."""


class Pressure:
    """Looks at one agent's state and queues."""

    def __init__(self, layout: GraphLayout, options: KeyedOptions, emitter: Emitter, host: Host) -> None:
        self._layout, self._options, self._emitter, self._host = layout, options, emitter, host
        self._cyclic = [type_ for type_ in layout.types if type_.name in layout.graph.cyclic_types]
        self._before = [one.place for one in layout.types if one.name not in layout.graph.from_circles]
        self._alone_at: float | None = None
        self._evict_at = 0.0
        self._done, self._done_at = -1, 0.0

    def tick(self, now: float, times: Sequence[int]) -> str | None:
        """Does what is due, at these times of the types; returns the reason why the job cannot go on, if it cannot."""
        if now >= self._evict_at:
            self._evict_at = now + EVICT_S
            self._evict()
        return self._stuck(now) or self._endless(now, times)

    def _evict(self) -> None:
        slots = [self._host.slots[place] for place in self._layout.keyed]
        used = [slot.runtime.memory_bytes for slot in slots]
        if (total := sum(used)) <= self._options.memory_bytes:
            return
        for slot, size in zip(slots, used, strict=True):
            allowed = int(size * EVICTED_TO * self._options.memory_bytes / total)
            slot.evict(allowed)

    def _stuck(self, now: float) -> str | None:
        full = [type_.name for type_ in self._cyclic if not self._emitter.has_room(type_.place)]
        done = sum(slot.events for slot in self._host.slots.values())
        if not full or done != self._done:
            self._done, self._done_at = done, now
            return None
        if now < self._done_at + self._options.stuck_s:
            return None
        path = " → ".join(self._layout.graph.cycle)
        return (
            f"elements: the circle {path} is full: {self._options.pending_rows_max:,} events of {full[0]} wait for room"
            " in it; emit fewer events in the circle than come into it"
        )

    def _endless(self, now: float, times: Sequence[int]) -> str | None:
        is_alone = all(times[place] >= NEVER for place in self._before)
        if not (self._options.bounded and is_alone and any(times[one.place] < NEVER for one in self._cyclic)):
            return None
        self._alone_at = now if self._alone_at is None else self._alone_at
        if now < self._alone_at + ROUND_S:
            return None
        path = " → ".join(self._layout.graph.cycle)
        return (
            f"elements: events go round in the circle {path} for {ROUND_S:,.0f} s after the end of the input; emit none"
            " in it at some point"
        )

    def next_timer(self) -> float:
        """The time of the next eviction."""
        return self._evict_at
