"""`elf batch scan`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import click
import msgspec

from agent.archive.format.segments import AGENT, LINE, TIME
from elf.commands.batch.opened import opened_table
from elf.commands.batch.options import (
    archives_option,
    from_option,
    key_of,
    master_option,
    moments,
    skip_torn_option,
    streams_option,
    to_option,
)
from elf.options.fleet import output_option
from elf.terminal.terminal import printable_json

COLUMNS = (TIME, AGENT, LINE)
_ROWS_PER_TABLE = 500
EXAMPLES = """\b
Examples:
  elf batch scan --archive shop-archive --stream web --limit 10
  elf batch scan --archive shop-archive --from 2026-01-01T10:00:00Z --to 2026-01-01T10:05:00Z --output json
  elf batch scan --archive shop-archive --columns raw:time,parsed:status --where '`parsed:status` >= 500' --explain
"""


@click.command(epilog=EXAMPLES, short_help="Show rows of an archive, and what Spark reads for them.")
@archives_option
@streams_option
@from_option
@to_option
@click.option("--start", metavar="KEY", help="Only rows from this key on, in hex.")
@click.option("--stop", metavar="KEY", help="Only rows before this key, in hex.")
@click.option(
    "--columns", metavar="NAME,...", help=f"The columns to show, or * for all.  [default: {','.join(COLUMNS)}]"
)
@click.option("--where", metavar="CONDITION", help="A condition in Spark's SQL, with columns in backticks.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="At most N rows: the earliest.")
@click.option("--explain", is_flag=True, help="Print what would be read, instead of reading it.")
@skip_torn_option
@master_option
@output_option("table", "json")
def scan(
    archives: tuple[str, ...],
    streams: tuple[str, ...],
    since: str | None,
    until: str | None,
    start: str | None,
    stop: str | None,
    columns: str | None,
    where: str | None,
    limit: int | None,
    explain: bool,
    skip_torn: bool,
    master: str,
    output: str,
) -> None:
    """Show the rows of an archive in the order of their times, each once.

    Segments outside of the range are not opened; of the others, Spark reads the columns it needs, in the parts that
    their statistics do not rule out. Columns: key, written, raw:time, raw:agent, raw:stream, raw:file, raw:offset,
    raw:format, raw:events, raw:line, and parsed:NAME for the fields of events.
    """
    from elf.batch.table.formatting import formatted_rows
    from elf.batch.table.scanning import explained, ordered
    from elf.batch.table.table import Range

    since_ms, until_ms = moments(since, until)
    wanted = Range(
        frozenset(streams) or None,
        since_ms,
        until_ms,
        key_of("--start", start),
        key_of("--stop", stop),
    )
    names = None if columns == "*" else columns.split(",") if columns else COLUMNS
    with opened_table(archives, master, skip_torn=skip_torn) as table:
        frame = ordered(table, wanted, names, where, limit)
        if explain:
            plan = explained(table, wanted, frame)
            click.echo(msgspec.json.encode(plan) if output == "json" else plan.text())
        elif output == "json":
            for row in formatted_rows(frame):
                text = msgspec.json.encode(row).decode()
                click.echo(printable_json(text) if sys.stdout.isatty() else text)
        else:
            _print(frame.columns, formatted_rows(frame))


def _print(names: list[str], rows: Iterable[dict[str, Any]]) -> None:
    """Prints rows as tables of `_ROWS_PER_TABLE` each, since a scan may be larger than memory."""
    from elf.output.listing import plain_table
    from elf.terminal.console import open_console

    console, rows = open_console(sys.stdout), iter(rows)
    while some := list(islice(rows, _ROWS_PER_TABLE)):
        console.print(plain_table(names, [tuple(row.values()) for row in some]))
