"""Counts of one agent's part of a job: in all, and of each of its elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.runtime.keyed.hosting.host import Host
from agent.runtime.keyed.hosting.layout import GraphLayout
from agent.runtime.keyed.hosting.placement.membership import NodeMembership
from agent.runtime.keyed.hosting.rows.emitter import Emitter
from agent.runtime.keyed.hosting.slot import ElementSlot


class Description:
    """Reads the counts of the parts. `shed`, `refused`: events by type."""

    def __init__(
        self,
        layout: GraphLayout,
        emitter: Emitter,
        host: Host,
        membership: NodeMembership,
        shed: Mapping[str, int],
        refused: Mapping[str, int],
    ) -> None:
        self._layout, self._emitter, self._host, self._membership = layout, emitter, host, membership
        self._shed, self._refused = shed, refused

    def statistics(self) -> Mapping[str, int]:
        """Counts by name."""
        host, emitter = self._host, self._emitter
        slots = host.slots.values()
        refused = sum(self._refused.values()) + sum(slot.refused for slot in slots)
        return {
            "hosted": int(host.owned.sum()),
            "elements": sum(slot.runtime.elements for slot in slots),
            "events": sum(slot.events for slot in slots),
            "emitted": host.emitted_rows,
            "sent": emitter.sent_rows,
            "sent_bytes": emitter.sent_bytes,
            "resent": emitter.resent,
            **self.given_up(),
            "late": self._total("late"),
            "dropped": self._total("dropped"),
            "lost": len(self._membership.lost | self._host.lost_nodes),
            "lost_rows": host.lost + emitter.lost,
            "given_left_out": host.pledges.given.left_out,
            "null_keys": int(emitter.null_keys.sum()),
            "refused": refused + host.streams.refused + self._membership.refused,
            "unacknowledged": sum(emitter.pending(type_.place)[0] for type_ in self._layout.types),
            "queued": host.queued,
            **emitter.chooser.statistics(),
            "stuck": len(self._membership.stuck),
            "under_replicated": len(self._membership.under_replicated),
        }

    def given_up(self) -> dict[str, int]:
        """Counts of what results say that they lack."""
        return {
            "shed": sum(self._shed.values()),
            "evicted": self._total("evicted"),
            "failed": self._total("failed"),
            "missed": self._total("late") + self._total("dropped") + self._host.lost + self._emitter.lost,
        }

    def _total(self, name: str) -> int:
        """The sum of a count that some runtimes keep."""
        return sum(getattr(slot.runtime, name, 0) for slot in self._host.slots.values())

    def elements(self, now: float) -> list[dict[str, Any]]:
        """A row per element. What happened to events before they came to elements is told of all that read their type
        here: they were `shed`, had `null_keys`, or were `refused`."""
        under_replicated = len(self._membership.under_replicated)
        elements = [(place, self._element(place, slot, now)) for place, slot in self._host.slots.items()]
        guaranteed = self._layout.guaranteed
        return [one | {"under_replicated": under_replicated if place in guaranteed else 0} for place, one in elements]

    def _element(self, place: int, slot: ElementSlot, now: float) -> dict[str, Any]:
        element, host = self._layout.elements[place], self._host
        types = [self._layout.by_name[name] for name in self._layout.inputs(place)]
        routes = [route.index for type_ in types for route in type_.routes if place in route.consumers]
        waiting = [at for type_ in types if (at := host.streams.oldest(type_.place)) is not None]
        is_keyed = place in host.keyed
        counts = {name: getattr(slot.runtime, name, 0) for name in ("evicted", "late", "dropped", "failed")}
        return {
            "element": element.name,
            "kind": element.kind,
            "nodes": int(host.owned.sum()) if is_keyed else 0,
            "elements": slot.runtime.elements,
            "events": slot.events,
            "emitted": slot.emitted,
            "queue": slot.queued + (host.holds[place].rows if place in host.holds else 0),
            "memory_bytes": slot.runtime.memory_bytes,
            "shed": sum(self._shed.get(type_.name, 0) for type_ in types),
            "null_keys": int(self._emitter.null_keys[routes].sum()),
            "refused": slot.refused + sum(self._refused.get(type_.name, 0) for type_ in types),
            "lag_s": max(0.0, now - min(waiting)) if waiting and is_keyed else None,
            "missed": counts["late"] + counts["dropped"],
            **counts,
            **self._emitter.chooser.describe(routes),
        }
