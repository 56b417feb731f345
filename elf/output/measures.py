"""The plan of a query whose columns are not known here, and the columns of its result that a chart can draw."""

from __future__ import annotations

from collections.abc import Sequence

import query
from elf.errors import UsageError

UNNAMED_STREAM = "the agent's only one"
"""Stands for the stream of a query that names none."""
EVERY_COLUMN = query.Schema({"*": "any"}, open=True)
"""Schema of a stream that no agent has described: any column may be there, and `*` stays `*`."""


def plan_for_any_columns(
    parsed: query.Query, *, max_groups: int = query.GROUPS_DEFAULT, beyond_groups: query.BeyondGroups = "other"
) -> query.Rewriting:
    """The plan of a query, whatever the columns of its stream may be, with the rules that rewrote it.

    Raises `query.QueryError`.
    """
    schemas = dict.fromkeys(query.streams_read(parsed) or [UNNAMED_STREAM], EVERY_COLUMN)
    return query.analyze_with_rules(parsed, schemas, max_groups=max_groups, beyond_groups=beyond_groups)


def measures_of(text: str) -> Sequence[str]:
    """The columns that aggregates make. Raises UsageError for a text that is no query."""
    try:
        return query.measures(plan_for_any_columns(query.parse(text)).plan)
    except query.QueryError as error:
        raise UsageError(f"a chart needs a query that can be read here: {error.message}") from None
