"""The names that completion offers: those of a backend, fetched when needed and cached, and those of ELF QL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from elf.errors import ElfError
from elf.statements.backend import Backend

FRESH_S = 10.0
STREAMS_MAX = 64
"""Upper bound on cached lists, mostly of streams' columns."""


class Knowledge:
    """Names of streams, of jobs, and of a stream's columns. While the backend fails, the last known names, or none."""

    def __init__(self, backend: Backend, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._clock = clock
        self._known: dict[tuple[str, ...], tuple[float, Sequence[str]]] = {}

    def streams(self) -> Sequence[str]:
        return self._names(("streams",), lambda: self._backend.streams().names)

    def jobs(self) -> Sequence[str]:
        return self._names(("jobs",), lambda: self._backend.jobs().names)

    def columns(self, stream: str) -> Sequence[str]:
        return self._names(("columns", stream), lambda: self._backend.columns(stream))

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


Words = tuple[Iterable[str], Iterable[str]]


class Vocabulary:
    """Keywords and functions of ELF QL, loaded in the background; calling it never waits."""

    def __init__(self) -> None:
        self._words: Words = ((), ())
        threading.Thread(target=self._load, daemon=True).start()

    def __call__(self) -> Words:
        return self._words

    def _load(self) -> None:
        import query  # all of ELF QL, while the person begins to type

        self._words = (frozenset(query.keywords()), frozenset(name.split()[0] for name in query.signatures()))
