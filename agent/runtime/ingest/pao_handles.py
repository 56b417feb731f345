"""Holds PAOs for the program of a job, under tokens: states it has flushed, and states of children."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.panes import Counts

HELD_MAX = 16
"""Upper bound on held PAOs; past it the oldest are dropped."""
OWN_TOKENS = 1 << 62
"""First token that the agent gives; programs count theirs from 1."""


class PaoHandle(NamedTuple):
    """Some groups of one pane, and its counts. `is_partial`: events of it were lost."""

    function: JobFunction
    state: pl.DataFrame
    counts: Counts
    is_partial: bool = False


class PaoHandles:
    """The held PAOs of one local job."""

    def __init__(self) -> None:
        self._held: dict[int, PaoHandle] = {}
        self._tokens = 0
        self._received: list[tuple[int, int]] = []

    def hold(self, token: int, held: PaoHandle) -> None:
        """Holds PAOs under a token that the program has chosen."""
        self._held[token] = held
        while len(self._held) > HELD_MAX:
            del self._held[next(iter(self._held))]

    def receive(self, child: int, held: PaoHandle) -> None:
        """Holds PAOs of a child, with which the program is to be called."""
        self._tokens += 1
        self.hold(OWN_TOKENS + self._tokens, held)
        self._received.append((child, OWN_TOKENS + self._tokens))

    def received(self) -> list[tuple[int, int]]:
        """The children whose PAOs have arrived since the last call, with their tokens."""
        received, self._received = self._received, []
        return received

    def get(self, token: int) -> PaoHandle | None:
        return self._held.get(token)

    def rows(self, token: int) -> list[dict[str, Any]] | None:
        """All groups as the query shows them; None if they are no longer held."""
        held = self._held.get(token)
        return None if held is None else held.function.rows(held.state)
