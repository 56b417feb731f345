"""Schedules that have broken a promise once, as they were shrunk, whatever seeds mean by now."""

from __future__ import annotations

from schedules import Fault, Schedule

FOUND = {
    "a clock that is ahead when the fleet starts again": Schedule(
        195,
        "trees",
        6,
        faults=(
            Fault(6.41, "crash", "inner", 1.0),
            Fault(6.74, "clock", "4", 6.0, 3600.0),
            Fault(8.56, "fleet", "4", 0.5),
        ),
    ),
    "a master that has lost its disk is back before the next one has begun": Schedule(
        29, "recovering", 2, faults=(Fault(1.53, "wipe", "6", 3.0), Fault(1.8, "disk", "inner", 6.0))
    ),
    "a master that was cut off for a moment is one of two until its rival gives up": Schedule(
        482, "hopping", 2, 0.1, (Fault(7.2, "cut", "1", 4.0), Fault(8.18, "update", "root", 0.0, 1.0))
    ),
    "a master that is not the nearest any more begins a further epoch": Schedule(
        281, "staged", 2, faults=(Fault(4.46, "crash", "root", 1.0), Fault(7.93, "stall", "5", 5.0))
    ),
    "an agent that has just come gets a version that it has not prepared": Schedule(
        752,
        "mapped",
        4,
        faults=(
            Fault(3.75, "crash", "6", 1.0),
            Fault(6.52, "update", "5", 0.0, 1.0),
            Fault(6.59, "cut", "6", 0.5),
        ),
    ),
    "code ends while events wait for what it makes of them": Schedule(
        752,
        "mapped",
        2,
        faults=(
            Fault(3.75, "crash", "6", 1.0),
            Fault(6.52, "update", "5", 0.0, 1.0),
            Fault(6.59, "cut", "6", 0.5),
        ),
    ),
    "a master that has lost its disk and believes a clock that is an hour ahead": Schedule(
        850,
        "leaping",
        3,
        faults=(Fault(1.0, "clock", "master", 6.0, 3600.0), Fault(2.0, "wipe", "master", 1.0), Fault(20.0, "twice")),
    ),
}
