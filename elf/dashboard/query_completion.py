"""Completes queries at the cursor as `elf shell` does, in the units in which a browser counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from elf.shell.completion import ShellCompleter
from elf.shell.knowledge import Knowledge
from elf.statements.backend import Backend

SUGGESTIONS_MAX = 12


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that replaces what stands from `start` (in UTF-16 units) to the cursor: people may have typed on."""

    text: str
    start: int


class QueryCompletion:
    """Suggests words for all pages; what the agent knows is asked for and cached by the shell's own `Knowledge`."""

    def __init__(self, backend: Backend, vocabulary: Callable[[], tuple[Iterable[str], Iterable[str]]]) -> None:
        self._completer = ShellCompleter(Knowledge(backend), vocabulary)
        self._lock = threading.Lock()

    def suggestions(self, text: str, cursor: int) -> list[Suggestion]:
        """The first completions at a cursor, which counts UTF-16 units. May wait for the agent."""
        position = len(text.encode("utf-16-le")[: 2 * max(0, cursor)].decode("utf-16-le", "ignore"))
        document = Document(text, position)
        if not text[:position].strip() or text.lstrip().startswith("\\"):
            return []
        with self._lock:
            found = islice(self._completer.get_completions(document, CompleteEvent()), SUGGESTIONS_MAX)
            return [Suggestion(one.text, _units(text[: position + one.start_position])) for one in found]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
