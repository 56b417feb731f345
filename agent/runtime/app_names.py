"""Which job a query means by `app('name')`."""

from __future__ import annotations

from collections.abc import Iterable

import query
from agent.runtime.messages import Announce
from overlay import Id

NO_JOB = "there is no job {name} in this fleet: elf jobs lists those there are"
ITSELF = "a job cannot read its own results: app('{name}') is the name of this one"


def app_named(name: str, announced: Iterable[Announce]) -> Id | None:
    """The job of that name whose master has been heard; of several the oldest, so that none can be displaced."""
    found = [announce for announce in announced if announce.name == name]
    return min(found, key=lambda one: (one.epoch.born_ms, one.app_id)).app_id if found else None


def unreadable(plan: query.Plan, own_name: str | None, announced: Iterable[Announce]) -> str | None:
    """Why a job of this name cannot read what its plan wants of others, in a line for people; None if it can."""
    announced = list(announced)
    for name in plan.apps:
        if name == own_name:
            return ITSELF.format(name=name)
        if app_named(name, announced) is None:
            return NO_JOB.format(name=name)
    return None
