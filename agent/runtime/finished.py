"""What a job's master makes of the state of one window."""

from __future__ import annotations

from typing import NamedTuple

import query


class Finished(NamedTuple):
    """`limited`: aggregates, as people write them, that left something out, and in how many groups. `error`: how far
    approximate ones may be off. `taken`: how many matching events, of a query without aggregates, are in the rows.
    """

    rows: query.Rows
    limited: dict[str, int]
    error: float | None
    taken: int

    def below(self, rows: Finished) -> Finished:
        """The same, made of these rows of a sub-query."""
        errors = [error for error in (self.error, rows.error) if error is not None]
        return Finished(self.rows, rows.limited | self.limited, max(errors, default=None), rows.taken)
