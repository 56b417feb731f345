"""Pairs the slots of two slices, and tests whether one slice is better."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from elf.optimization.paired_test import PairedTest
from elf.optimization.slice_meter import MeasuredSlot

WAITING_MAX = 64
"""Slots of one slice that wait for those of the other; the oldest goes first."""


class Outcome(NamedTuple):
    """The verdict of an experiment: 1 if the first slice is better, 0 equal, -1 worse; the slots and events that it
    took, and the mean difference of the slices."""

    experiment: int
    verdict: int
    slots: int
    events: int
    difference: float


@dataclass(slots=True)
class Comparator:
    """Compares two slices, 0 and 1, in one experiment after the other; `state` is what it has seen.

    Experiments ascend: one begins with its first slot, and the one before is then over. One that has its verdict takes
    no more slots.
    """

    test: Callable[[], PairedTest] = PairedTest
    experiment: int = -1
    is_over: bool = False
    events: int = 0
    waiting: dict[int, tuple[int, float, int]] = field(default_factory=dict)
    tested: PairedTest = field(init=False)

    def __post_init__(self) -> None:
        self.tested = self.test()

    def add(self, which: int, slot: MeasuredSlot) -> Outcome | None:
        """Takes a slot of slice `which`; returns the outcome once there is one. Invalid slots are ignored."""
        if not slot.valid or slot.experiment < self.experiment:
            return None
        if slot.experiment > self.experiment:
            self.experiment, self.is_over, self.events, self.waiting = slot.experiment, False, 0, {}
            self.tested = self.test()
        if self.is_over:
            return None
        other = self.waiting.pop(slot.slot, None)
        if other is None or other[0] == which:
            self.waiting[slot.slot] = (which, slot.mean, slot.events)
            if len(self.waiting) > WAITING_MAX:
                del self.waiting[min(self.waiting)]
            return None
        self.events += slot.events + other[2]
        difference = slot.mean - other[1] if which == 0 else other[1] - slot.mean
        verdict = self.tested.add(difference)
        if verdict is None:
            return None
        self.is_over, self.waiting = True, {}
        return Outcome(self.experiment, verdict, self.tested.count, self.events, self.tested.mean)

    @property
    def state(self) -> dict[str, Any]:
        """The sum of all it has taken, for JSON."""
        tested = self.tested
        return {
            "experiment": self.experiment,
            "is_over": self.is_over,
            "events": self.events,
            "waiting": [[slot, *rest] for slot, rest in self.waiting.items()],
            "test": [tested.count, tested.mean, tested.squares],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on where another has stopped; an empty state is that of a new one."""
        if state:
            self.experiment, self.is_over, self.events = state["experiment"], state["is_over"], state["events"]
            self.waiting = {slot: (which, mean, events) for slot, which, mean, events in state["waiting"]}
            self.tested.count, self.tested.mean, self.tested.squares = state["test"]
