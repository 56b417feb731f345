"""Measures the objective in one slice of the traffic, slot by slot."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple


class MeasuredSlot(NamedTuple):
    """The mean of the objective in one slot. It is valid if all its events were there and had one experiment."""

    experiment: int
    slot: int
    events: int
    mean: float
    valid: bool


@dataclass(slots=True)
class SliceMeter:
    """Adds up the events of a slice, which come by their time; `state` is the sum of all it has taken.

    A slot lasts `slot_ms` from a multiple of that on, or, if `slot_events` is given, as many events of one experiment.
    Slots of fixed time are valid with at least `events_min` events. The first slot is not: its beginning may have been
    missed. Nor is a slot in which an experiment began. Events of a slot that has ended are not counted. Experiments
    ascend; events of an earlier one, from servers that have changed late, are not counted either.
    """

    slot_ms: int = 0
    slot_events: int = 0
    events_min: int = 1
    slot: int = -1
    experiment: int = -1
    events: int = 0
    total: float = 0.0
    whole: bool = False

    def add(self, time_ms: int, experiment: int, value: float) -> MeasuredSlot | None:
        """Takes an event; returns the slot that has ended with it, or before it."""
        if experiment < self.experiment:
            return None
        if self.slot_events:
            return self._add_to_count(experiment, value)
        return self._add_to_time(time_ms // self.slot_ms, experiment, value)

    def pass_to(self, time_ms: int) -> MeasuredSlot | None:
        """Learns that all events before this time have come; returns the slot of time that has ended with it."""
        if self.slot_events or self.slot < 0 or time_ms // self.slot_ms <= self.slot:
            return None
        ended = self._ended() if self.events else None
        self._begin(time_ms // self.slot_ms, self.experiment, whole=True)
        return ended

    @property
    def state(self) -> dict[str, Any]:
        """Further arguments of a meter that goes on where this one has stopped, for JSON."""
        return {name: getattr(self, name) for name in ("slot", "experiment", "events", "total", "whole")}

    def _add_to_count(self, experiment: int, value: float) -> MeasuredSlot | None:
        """Counts an event. Slots are numbered anew in each experiment, so that those of two slices meet."""
        if experiment > self.experiment:
            self._begin(0, experiment, whole=True)
        self._count(value)
        if self.events < self.slot_events:
            return None
        ended = self._ended()
        self._begin(self.slot + 1, experiment, whole=True)
        return ended

    def _add_to_time(self, slot: int, experiment: int, value: float) -> MeasuredSlot | None:
        ended = None
        if slot < self.slot:
            return None
        if slot > self.slot:
            ended = self._ended() if self.events else None
            self._begin(slot, self.experiment, whole=self.slot >= 0)
        if experiment > self.experiment:
            self._begin(self.slot, experiment, whole=False)
        self._count(value)
        return ended

    def _begin(self, slot: int, experiment: int, *, whole: bool) -> None:
        self.slot, self.experiment, self.whole = slot, experiment, whole
        self.events, self.total = 0, 0.0

    def _count(self, value: float) -> None:
        self.whole = self.whole and math.isfinite(value)
        self.events += 1
        self.total += value

    def _ended(self) -> MeasuredSlot:
        valid = self.whole and self.events >= self.events_min
        return MeasuredSlot(self.experiment, self.slot, self.events, self.total / self.events if valid else 0.0, valid)
