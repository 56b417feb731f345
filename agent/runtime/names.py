"""Jobs by their names, as people and programs write them: NAME, or NAME@CREATOR where two creators use one name."""

from __future__ import annotations

from collections.abc import Iterable

from agent.runtime.messages import Announce
from overlay import Id, app_id


class AmbiguousNameError(Exception):
    """More than one job has this name: one line that lists them."""


def app_of(name: str, announced: Iterable[Announce], past: Iterable[Announce] = ()) -> Id:
    """The app of that name among those that are announced, else among those that were.

    Else it is nobody's app of that name, which may be unheard of. Raises AmbiguousNameError.
    """
    found = {one.app_id: one for one in announced if name in (one.name, f"{one.name}@{one.creator}")}
    exact = [one.app_id for one in found.values() if one.name == name]
    if len(exact) > 1:
        spelled = " or ".join(sorted(f"{one.name}@{one.creator}" for one in found.values() if one.creator))
        raise AmbiguousNameError(f"more than one job is named {name}: say {spelled}")
    if not found:
        return app_of(name, past) if past else app_id(name, b"")
    return next(iter(exact or found))


def no_job(name: str) -> str:
    """What people are told who name a job that is not there."""
    return f"there is no job {name} in this fleet: elf jobs lists those there are"
