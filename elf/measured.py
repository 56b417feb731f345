"""Which columns of a job's results its query measures."""

from __future__ import annotations

from collections.abc import Sequence

import query
from elf.errors import UsageError
from elf.explanation import planned


def measures_of(text: str) -> Sequence[str]:
    """The columns that are made of aggregates. Raises UsageError for what is no query here."""
    try:
        return query.measures(planned(query.parse(text)))
    except query.QueryError as error:
        raise UsageError(f"a chart needs a query that can be read here: {error.message}") from None
