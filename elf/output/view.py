"""Options of showing a job: format, place, and limits."""

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
    """Limits of a view: a number of windows, and a deadline (of `time.monotonic`). The job itself goes on."""

    windows: int | None = None
    deadline: float = float("inf")


class ViewedJob(Protocol):
    """A job that can be shown; see `SyncJob`."""

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
