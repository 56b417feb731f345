"""PAOs that an agent holds for the program of a job, under tokens: what it has flushed, and what children have sent."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from agent.runtime.function import JobFunction

HELD_MAX = 16
"""Of more, those that were held first are let go."""
OWN_TOKENS = 1 << 62
"""Tokens that the agent gives begin here; programs count theirs from 1."""


class Held(NamedTuple):
    """Some groups of one pane, and what was counted. `is_partial`: events of it were lost."""

    function: JobFunction
    state: pl.DataFrame
    counters: pl.DataFrame
    is_partial: bool = False


class HeldPaos:
    """Of one part in a job."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._given = 0

    def hold(self, token: int, held: Held) -> None:
        """Holds PAOs under a token of the program's."""
        self._held[token] = held
        while len(self._held) > HELD_MAX:
            del self._held[next(iter(self._held))]

    def give(self, held: Held) -> int:
        """Holds PAOs under a token that it gives."""
        self._given += 1
        self.hold(OWN_TOKENS + self._given, held)
        return OWN_TOKENS + self._given

    def get(self, token: int) -> Held | None:
        return self._held.get(token)

    def rows(self, token: int) -> list[dict[str, Any]] | None:
        """All groups, as the query shows them; None where they are not held any more."""
        held = self._held.get(token)
        return None if held is None else held.function.rows(held.state)
