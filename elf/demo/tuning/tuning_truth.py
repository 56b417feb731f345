"""Works out every experiment anew from the servers' logs, without ELF: which slots count, and what they differ by."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elf.demo.story.truth import instant
from elf.demo.tuning.offer_site import SLICES

SLOT_MS, VISITS_MIN = 500, 20
"""The job's."""
_TOLERANCE = 1e-9


class LoggedVisit(NamedTuple):
    """A line of a log."""

    at_ms: int
    slice: str
    experiment: int
    value: int


@dataclass(frozen=True, slots=True)
class Recount:
    """Outcomes that the logs hold too, outcomes without some visits that the job got too late, and a line for each of
    the others."""

    same: int
    late: int
    wrong: tuple[str, ...]


def read_visits(logs: Iterable[Path]) -> list[LoggedVisit]:
    """The visits of all servers by their time, whichever the slice."""
    lines = [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]
    visits = [LoggedVisit(instant(one["created_at"]), one["slice"], one["experiment"], one["value"]) for one in lines]
    return sorted((one for one in visits if one.experiment > 0), key=lambda one: one.at_ms)


def recount(visits: Sequence[LoggedVisit], outcomes: Sequence[Mapping[str, Any]]) -> Recount:
    """Compares the outcomes that the job has shown with the logs."""
    slots = {name: _valid_slots([one for one in visits if one.slice == name]) for name in SLICES}
    late, wrong = 0, []
    for outcome in outcomes:
        first, second = (slots[name][outcome["experiment"]] for name in SLICES)
        both = sorted(first.keys() & second.keys())[: outcome["slots"]]
        counted = sum(len(first[slot]) + len(second[slot]) for slot in both)
        words = f"experiment {outcome['experiment']}: {outcome['slots']} slots and {outcome['visits']:,} visits"
        if len(both) < outcome["slots"] or counted < outcome["visits"]:
            wrong.append(f"{words}, {len(both)} and {counted:,} in the logs")
            continue
        found = statistics.fmean(statistics.fmean(first[slot]) - statistics.fmean(second[slot]) for slot in both)
        if counted > outcome["visits"]:
            late += 1
        elif not math.isclose(found, outcome["difference"], abs_tol=_TOLERANCE):
            wrong.append(f"{words} differ by {outcome['difference']:+.6f}, {found:+.6f} in the logs")
    return Recount(len(outcomes) - late - len(wrong), late, tuple(wrong))


def _valid_slots(visits: Sequence[LoggedVisit]) -> Mapping[int, Mapping[int, list[int]]]:
    """By experiment, the values of each slot of a slice that the experiment had to itself, from its beginning on."""
    by_slot: dict[int, list[LoggedVisit]] = defaultdict(list)
    for visit in visits:
        by_slot[visit.at_ms // SLOT_MS].append(visit)
    valid: dict[int, dict[int, list[int]]] = defaultdict(dict)
    experiment = None
    for slot, inside in by_slot.items():
        newest = max(visit.experiment for visit in inside)
        values = [visit.value for visit in inside if visit.experiment == experiment]
        if experiment is not None and newest <= experiment and len(values) >= VISITS_MIN:
            valid[experiment][slot] = values
        experiment = max(newest, experiment or 0)
    return valid
