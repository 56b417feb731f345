"""How a job's windows are to be shown, and for how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """An `--output` choice; `in_place`: the newest window of a live job replaces the one before."""

    output: str
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """When to end although the job goes on: after so many windows, or at a time (of `time.monotonic`)."""

    windows: int | None = None
    deadline: float = float("inf")
