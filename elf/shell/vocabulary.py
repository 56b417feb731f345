"""Keywords and functions of ELF QL, loaded in the background: until they are loaded there are none."""

from __future__ import annotations

import threading
from collections.abc import Iterable

Words = tuple[Iterable[str], Iterable[str]]


class Vocabulary:
    """Keywords and functions; calling it never waits."""

    def __init__(self) -> None:
        self._words: Words = ((), ())
        threading.Thread(target=self._load, daemon=True).start()

    def __call__(self) -> Words:
        return self._words

    def _load(self) -> None:
        import query  # all of ELF QL, while the person begins to type

        self._words = (frozenset(query.keywords()), frozenset(name.split()[0] for name in query.signatures()))
