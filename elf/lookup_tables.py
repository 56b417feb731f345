"""The look-up tables of a query that runs here, from the files that they are in."""

from __future__ import annotations

from collections.abc import Mapping

import query
from agent.feeding.table_files import read_table
from agent.runtime.tables import Table
from agent.sources import SourceError
from elf.errors import UsageError


def read_tables(parsed: query.Query, files: Mapping[str, str]) -> dict[str, Table]:
    """The tables that a query joins with, by name. Raises `query.QueryError` for one without a file, UsageError for a
    file that is no table.
    """
    found = {}
    for table in query.sources(parsed):
        if not isinstance(table, query.Table):
            continue
        if table.name not in files:
            guess = query.nearest(table.name, files)
            hint = f"did you mean {guess}?" if guess else f"name its file: --table {table.name}=FILE"
            raise query.QueryError(f"there is no table {table.name}", parsed.text, table.span, hint=hint)
        try:
            found[table.name] = read_table(files[table.name])
        except SourceError as error:
            raise UsageError(str(error)) from error
    return found
