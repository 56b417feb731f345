"""Describes the streams and tables that a query names, from the present files of this agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import query as ql
from agent.configuration.config import StreamConfig, TableConfig
from agent.feeding.stream_schema import stream_schema
from agent.feeding.table_reading import read_table, table_schema
from agent.sources import SourceError

ANYTHING = ql.Schema({}, open=True)


def streams_known(query: ql.Query, streams: Iterable[StreamConfig]) -> dict[str, ql.Schema]:
    """Schemas of the agent's streams, and open ones of streams that other agents may have. Blocks: looks into files."""
    known = {stream.name: schema_of_stream(stream) for stream in streams}
    return known | dict.fromkeys(_elsewhere(query, known), ANYTHING)


def tables_known(
    query: ql.Query, tables: Iterable[TableConfig], streams: Mapping[str, ql.Schema]
) -> dict[str, ql.Schema]:
    """Schemas of the agent's tables with which a query joins, open if they cannot be read. Blocks: reads the tables.

    Raises QueryError for a table that this agent lacks although it has the events to be joined. `streams`: its own.
    """
    own = {table.name: table for table in tables}
    joined = [source for source in ql.sources(query) if isinstance(source, ql.TableRef)]
    named = ql.streams_read(query)
    has_events = bool(streams) if not named else any(ql.selects(text, name) for text in named for name in streams)
    for table in joined:
        if table.name not in own and has_events:
            guess = ql.nearest(table.name, own)
            has = f"its tables are {ql.listed(sorted(own))}" if own else "it has none"
            hint = f"did you mean {guess}?" if guess else f"{has}: [tables.NAME] in agent.toml names one"
            raise ql.QueryError(f"this agent has no table {table.name}", query.text, table.span, hint=hint)
    return {table.name: _table_schema(own[table.name]) for table in joined if table.name in own}


def schema_of_stream(stream: StreamConfig) -> ql.Schema:
    """The columns of one stream. Blocks."""
    return stream_schema(stream.source, stream.format, stream.time_field)


def _elsewhere(query: ql.Query, known: Mapping[str, ql.Schema]) -> list[str]:
    wanted = [pattern for text in ql.streams_read(query) for pattern in ql.patterns(text)]
    return [pattern for pattern in wanted if not any(ql.selects(pattern, name) for name in known)]


def _table_schema(table: TableConfig) -> ql.Schema:
    try:
        return table_schema(read_table(table.path, table.format))
    except SourceError:
        return ANYTHING
