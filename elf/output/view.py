"""How a job's windows are to be shown, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from elf.client.attachment import Update


@dataclass(frozen=True, slots=True)
class View:
    """An `--output` choice; `in_place`: the newest window of a live job replaces the one before."""

    output: str
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class ViewLimits:
    """When to end although the job goes on: after so many windows, or at a time (of `time.monotonic`)."""

    windows: int | None = None
    deadline: float = float("inf")


class ViewedJob(Protocol):
    """A job whose windows come one after the other; see `SyncJob`."""

    @property
    def app(self) -> str: ...

    @property
    def query(self) -> str: ...

    @property
    def columns(self) -> list[str]: ...

    @property
    def bounded(self) -> bool: ...

    @property
    def failure(self) -> str: ...

    def wait(self, timeout_s: float) -> Update | None: ...
