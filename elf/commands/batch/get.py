"""`elf batch get`."""

from __future__ import annotations

import sys

import click
import msgspec

from agent.archive.format.row_key import RowKeyError
from elf.commands.batch.opened import opened_table
from elf.commands.batch.options import archives_option, key_of, master_option, skip_torn_option
from elf.errors import ElfError, UsageError
from elf.options.fleet import output_option

EXAMPLES = """\b
Examples:
  elf batch get 02776562008000018bcfe568007765622d310000000000000000070000000000000000 --archive shop-archive
"""


@click.command(epilog=EXAMPLES, short_help="Show the row with a key.")
@click.argument("key", metavar="KEY")
@archives_option
@skip_torn_option
@master_option
@output_option("table", "json")
def get(key: str, archives: tuple[str, ...], skip_torn: bool, master: str, output: str) -> None:
    """Show the row whose key is KEY, in hex as elf batch scan shows keys. Exit code 1 where there is none."""
    from elf.batch.table.formatting import formatted_rows
    from elf.batch.table.table import Range
    from elf.output.listing import plain_table
    from elf.terminal.console import open_console

    try:
        wanted = Range.of_key(key_of("KEY", key) or b"")
    except RowKeyError as error:
        raise UsageError(str(error)) from error
    with opened_table(archives, master, skip_torn=skip_torn) as table:
        found = list(formatted_rows(table.scan(wanted)))
    if not found:
        raise ElfError(f"no row has the key {key}")
    if output == "json":
        click.echo(msgspec.json.encode(found[0]))
    else:
        rows = [(name, None if value is None else str(value)) for name, value in found[0].items()]
        open_console(sys.stdout).print(plain_table(["COLUMN", "VALUE"], rows))
