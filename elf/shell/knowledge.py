"""Caches the names that completion offers, fetched from a backend when they are needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from elf.errors import ElfError
from elf.statements.backend import Backend

FRESH_S = 10.0
STREAMS_MAX = 64
"""Upper bound on cached lists, mostly of streams' columns."""


class Knowledge:
    """Names of streams, of jobs, and of a stream's columns. While the backend fails, the last known names, or none."""

    def __init__(self, answerer: Backend, clock: Callable[[], float] = time.monotonic) -> None:
        self._answerer = answerer
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[float, Sequence[str]]] = {}

    def streams(self) -> Sequence[str]:
        return self._names(("streams",), lambda: self._answerer.streams().names)

    def jobs(self) -> Sequence[str]:
        return self._names(("jobs",), lambda: self._answerer.jobs().names)

    def columns(self, stream: str) -> Sequence[str]:
        return self._names(("columns", stream), lambda: self._answerer.columns(stream))

    def _names(self, key: tuple[str, ...], ask: Callable[[], Sequence[str]]) -> Sequence[str]:
        now = self._clock()
        asked_at, names = self._known.get(key, (-FRESH_S, ()))
        if now - asked_at < FRESH_S:
            return names
        with suppress(ElfError):
            names = ask()
        if len(self._known) > STREAMS_MAX:
            self._known.clear()
        self._known[key] = (self._clock(), names)
        return names
