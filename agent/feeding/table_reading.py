"""Reads look-up tables: small files of rows."""

from __future__ import annotations

import query
from agent.parsing import parser, schema, sniff
from agent.parsing.formats import Format
from agent.runtime.upstream.tables import FileTable
from agent.sources import BLOCK_BYTES, Block, SourceError, SourceFile


def read_table(path: str, kind: str = "auto") -> FileTable:
    """The rows of a file. Blocks. Raises SourceError for a file that is too large, or has a line that is no row."""
    head = SourceFile(path).head()
    sniffed = sniff(head, path, kind)
    if sniffed.traits.fixed_time_field is not None:
        raise SourceError(path, "holds log lines: a table is JSON lines, CSV or TSV")
    form = Format(sniffed.kind, None, sniffed.header)
    blocks = _blocks(path, form)
    reader = parser(form, ())
    read = [reader.parse(block, 0) for block in blocks]
    if broken := sum(one.malformed for one in read) + sum(block.overlong for block in blocks):
        raise SourceError(path, f"{broken:,} of its lines are no rows")
    rows = sum(frame.height for one in read for frame in one.frames)
    if rows > query.TABLE_ROWS_MAX:
        raise SourceError(path, f"has {rows:,} rows: a table may have {query.TABLE_ROWS_MAX:,}")
    return FileTable(form, blocks)


def table_schema(table: FileTable) -> query.Schema:
    """The columns of a table by name, if its file has a header."""
    columns, is_open = schema(table.form)
    return query.Schema(dict.fromkeys(columns, "any"), is_open)


def _blocks(path: str, form: Format) -> tuple[Block, ...]:
    blocks, size = [], 0
    for block in SourceFile(path).blocks(block_bytes=BLOCK_BYTES, csv_quotes=form.quotes_span_lines):
        size += len(block.data)
        if size > query.TABLE_BYTES_MAX:
            raise SourceError(path, f"is larger than {query.TABLE_BYTES_MAX >> 20} MiB, which a table may have")
        blocks.append(block)
    return tuple(blocks)
