"""`elf batch export`."""

from __future__ import annotations

import click
import msgspec

from elf.commands.batch.opened import opened_table
from elf.commands.batch.options import (
    archives_option,
    from_option,
    master_option,
    moments,
    skip_torn_option,
    streams_option,
    to_option,
)
from elf.errors import UsageError
from elf.options.fleet import output_option
from elf.terminal.terminal import printable

EXAMPLES = """\b
Examples:
  elf batch export restored-logs --archive shop-archive --stream web
  elf batch export errors --archive shop-archive --format csv --columns raw:time,parsed:status,parsed:path
"""


@click.command(epilog=EXAMPLES, short_help="Write rows of an archive as files: the logs as they were, or tables.")
@click.argument("target", metavar="DIR")
@archives_option
@streams_option
@from_option
@to_option
@click.option(
    "--format", "form", type=click.Choice(["lines", "parquet", "csv", "json"]), default="lines", show_default=True,
    help="The lines of each log as they were, or a table of rows in the order of their times.",
)  # fmt: skip
@click.option("--columns", metavar="NAME,...", help="The columns of a table; else all.")
@skip_torn_option
@master_option
@output_option("table", "json")
def export(
    target: str,
    archives: tuple[str, ...],
    streams: tuple[str, ...],
    since: str | None,
    until: str | None,
    form: str,
    columns: str | None,
    skip_torn: bool,
    master: str,
    output: str,
) -> None:
    """Write rows of an archive to the new directory DIR, a path or a URI.

    With --format lines, DIR/AGENT/STREAM/FILE.ID are the log files again, byte by byte. In CSV and JSON, keys are hex
    and bytes of lines that are no UTF-8 are replaced.
    """
    from elf.batch.table.export import export as export_rows
    from elf.batch.table.table import Range

    if columns and form == "lines":
        raise UsageError("--columns is for tables: choose one with --format")
    wanted = Range(frozenset(streams) or None, *moments(since, until))
    with opened_table(archives, master, skip_torn=skip_torn) as table:
        files = export_rows(table, wanted, target, form, columns.split(",") if columns else None)  # type: ignore[arg-type]
    for file in files:
        click.echo(
            msgspec.json.encode({"file": file}) if output == "json" else f"{printable(target)}/{printable(file)}"
        )
