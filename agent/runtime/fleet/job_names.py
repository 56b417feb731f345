"""Finds jobs by the names that people, queries and programs write: NAME, or NAME@CREATOR where two share a name."""

from __future__ import annotations

from collections.abc import Iterable

import query
from agent.runtime.messages.jobs import Announce
from overlay import Id, app_id

ITSELF = "a job cannot read its own results: app('{name}') is the name of this one"


def app_named(name: str, announced: Iterable[Announce]) -> Id | None:
    """The announced job of this name; of several the oldest, so that no later job can take its place."""
    found = [announce for announce in announced if name in spellings(announce)]
    return min(found, key=lambda one: (one.epoch.born_ms, one.app_id)).app_id if found else None


def unreadable(plan: query.Plan, own_name: str | None, announced: Iterable[Announce]) -> str | None:
    """Explains to people why a job of this name cannot read the jobs that its plan names; None if it can."""
    announced = list(announced)
    for name in plan.apps:
        if name == own_name:
            return ITSELF.format(name=name)
        if app_named(name, announced) is None:
            return no_job(name)
    return None


def stage_app(job: str, stage: str) -> str:
    """The name under which a stage of a job runs.

    >>> stage_app("counts", "likes")
    'counts.likes'
    """
    return f"{job}.{stage}"


class AmbiguousNameError(Exception):
    """More than one job has this name: one line that lists them."""


def app_of(name: str, announced: Iterable[Announce], past: Iterable[Announce] = ()) -> Id:
    """The app of this name among the announced jobs, else among the past ones.

    Otherwise the app of this name without a creator, which need not exist. Raises AmbiguousNameError.
    """
    found = {one.app_id: one for one in announced if name in spellings(one)}
    exact = [one.app_id for one in found.values() if one.name == name]
    if len(exact) > 1:
        spelled = " or ".join(sorted(f"{one.name}@{one.creator}" for one in found.values() if one.creator))
        raise AmbiguousNameError(f"more than one job is named {name}: say {spelled}")
    if not found:
        return app_of(name, past) if past else app_id(name, b"")
    return next(iter(exact or found))


def no_job(name: str) -> str:
    """The answer to people who name a job that does not exist."""
    return f"there is no job {name} in this fleet: elf jobs lists those there are"


def spellings(announce: Announce) -> tuple[str, str]:
    """The names by which a job can be called."""
    return announce.name, f"{announce.name}@{announce.creator}"
