"""Schedules of simulated lives: a job, a fleet, and what goes wrong when, as plain values drawn from a seed."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass, replace

GROUPED = "FROM web GROUP BY agent"
IDS = f"SELECT agent, COLLECT(number, 10000) AS ids, COUNT(*) AS n {GROUPED}"
FOLDED = f"SELECT agent, NUMBERS(number) AS ids, COUNT(*) AS n {GROUPED}"
SESSIONS = f"SELECT agent, window_start, window_end, COUNT(*) AS n, SUM(number) AS s {GROUPED}"
JOBS = {
    "tumbling": f"{IDS} WINDOWING 2 SECONDS",
    "recovering": f"{IDS} WINDOWING 2 SECONDS RECOVER FOR 0 SECONDS",
    "leaping": f"{IDS} WINDOWING 2 SECONDS ON STRAGGLER LEAP",
    "mirroring": f"{IDS} WINDOWING 2 SECONDS ON STRAGGLER MIRROR",
    "trees": f"{IDS}, product WINDOWING 2 SECONDS TREES 3",
    "hopping": f"{IDS} WINDOWING 6 SECONDS EVERY 2 SECONDS",
    "sizes": f"{IDS} WINDOWING 2 SECONDS, 6 SECONDS EVERY 4 SECONDS",
    "changes": f"{IDS} WINDOWING 4 SECONDS EMIT CHANGES",
    "sessions": f"{SESSIONS} WINDOWING SESSION 1 SECOND",
    "mapped": f"{IDS} WINDOWING 2 SECONDS",
    "staged": f"{IDS} WINDOWING 2 SECONDS",
    "folded": f"{FOLDED} WINDOWING 2 SECONDS",
    "gathered": f"{FOLDED} WINDOWING 6 SECONDS EVERY 2 SECONDS TREES 3",
}
"""Queries by name. Their groups tell agents apart, and `ids` names each event that is counted. Programs map the events
of one; another one is a stage of a job that reads it; two have an aggregate of their own."""
QUIET_S = 16.0
"""Time after the last fault within which everything is well again."""
QUIET_AFTER_ALL_S = 26.0
"""The same where the whole fleet was killed."""
SMALL_SEEDS = 30
"""Seeds below this one are short lives of few agents, for the fast tests."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong `at` seconds after the beginning, and is over `seconds` later.

    `whom`: the number of an agent, or "master", "root" or "inner" (of a tree). `much`: by how much, of some kinds.
    """

    at: float
    kind: str
    whom: str = ""
    seconds: float = 0.0
    much: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """One life. `late`: share of events that are logged later than the grace."""

    seed: int
    job: str
    size: int
    late: float = 0.0
    faults: tuple[Fault, ...] = ()

    def without(self, fault: Fault) -> Schedule:
        """The same life, but for one fault."""
        return replace(self, faults=tuple(one for one in self.faults if one is not fault))

    @property
    def seconds(self) -> float:
        """Time from the beginning until all should be well."""
        over = max((fault.at + fault.seconds for fault in self.faults), default=0.0)
        return over + (QUIET_AFTER_ALL_S if "fleet" in self.kinds() else QUIET_S)

    def kinds(self) -> set[str]:
        return {fault.kind for fault in self.faults}


_SECONDS = {
    "crash": (0.3, 1.0, 2.5, 5.0),
    "wipe": (0.5, 3.0),
    "gone": (0.0,),
    "fleet": (0.5, 4.0),
    "stall": (0.5, 2.0, 5.0),
    "mute": (2.0, 6.0),
    "slow": (4.0, 8.0),
    "cut": (1.0, 4.0, 6.0),
    "one-way": (1.0, 4.0, 6.0),
    "loss": (2.0, 6.0),
    "twice": (2.0, 6.0),
    "disk": (3.0, 6.0),
    "slow-disk": (6.0,),
    "full-disk": (3.0, 6.0),
    "busy": (1.0, 5.0),
    "clock": (2.0, 6.0),
    "update": (0.0,),
    "leave": (0.0,),
    "join": (0.0,),
}
"""Kinds of faults, with the times (seconds) that they may last."""
_MUCH = {"loss": (0.02, 0.1), "twice": (0.05, 0.3), "clock": (3600.0, 5.0, -1.5, -3600.0), "update": (0.0, 1.0)}
CODED = ("mapped", "staged", "folded", "gathered")
"""Jobs with programs."""
_WHOM = ("1", "2", "3", "4", "5", "6", "master", "master", "root", "inner")


def parse(text: str) -> Schedule:
    """The schedule that was printed as this text; ValueError if it is none."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call):
        raise ValueError(f"not a schedule: {text}")
    values = {word.arg: word.value for word in call.keywords if word.arg is not None}
    listed = values.pop("faults", None)
    calls = [one for one in listed.elts if isinstance(one, ast.Call)] if isinstance(listed, ast.Tuple) else []
    plain = {name: ast.literal_eval(value) for name, value in values.items()}
    faults = [Fault(**{str(word.arg): ast.literal_eval(word.value) for word in one.keywords}) for one in calls]
    return Schedule(**plain, faults=tuple(faults))


def befalls(kind: str, job: str) -> bool:
    """Whether a kind of fault can befall a job."""
    return {"update": job != "sessions", "busy": job in CODED}.get(kind, True)


def draw(seed: int) -> Schedule:
    """The schedule of a seed. Small lives go through all kinds of faults and jobs."""
    source = random.Random(seed)
    is_small = seed < SMALL_SEEDS
    first = list(_SECONDS)[seed % len(_SECONDS)] if is_small else source.choice(list(_SECONDS))
    jobs = [job for job in JOBS if befalls(first, job)]
    job = jobs[(seed + seed // len(jobs)) % len(jobs)]
    kinds = [kind for kind in _SECONDS if befalls(kind, job)]
    count = source.choice((1, 1, 2) if is_small else (1, 1, 2, 2, 3, 4))
    drawn = [first, *source.choices(kinds, k=count - 1)]
    faults = [_draw_fault(source, kind, 3.0 if is_small else 10.0) for kind in drawn]
    return Schedule(
        seed,
        job,
        source.choice((2, 3) if is_small else (2, 3, 3, 4, 4, 6)),
        source.choice((0.0, 0.0, 0.1)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
    )


def _draw_fault(source: random.Random, kind: str, within_s: float) -> Fault:
    return Fault(
        round(source.uniform(0, within_s), 2),
        kind,
        source.choice(_WHOM),
        source.choice(_SECONDS[kind]),
        source.choice(_MUCH.get(kind, (0.0,))),
    )
