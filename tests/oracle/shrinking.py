"""Makes a schedule that fails smaller, while it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from schedules import Schedule

SHRINK_S = 60.0
"""Time (seconds of the processor) after which the smallest schedule so far is taken."""


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool], seconds: float = SHRINK_S) -> Schedule:
    """The smallest schedule found that still fails: with fewer faults, fewer agents and shorter faults."""
    deadline = time.process_time() + seconds
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(schedule):
            if time.process_time() > deadline:
                return schedule
            if fails(candidate):
                schedule, is_smaller = candidate, True
                break
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    for fault in schedule.faults:
        yield schedule.without(fault)
    if schedule.late:
        yield replace(schedule, late=0.0)
    for size in range(1, schedule.size):
        yield replace(schedule, size=size)
    for number, fault in enumerate(schedule.faults):
        for shorter in (replace(fault, seconds=1.0), replace(fault, seconds=fault.seconds / 2)):
            if 0.3 <= shorter.seconds < fault.seconds:
                yield replace(schedule, faults=(*schedule.faults[:number], shorter, *schedule.faults[number + 1 :]))
