"""`elf batch split`."""

from __future__ import annotations

import click

from elf.commands.batch.opened import opened_table
from elf.commands.batch.options import archives_option, master_option
from elf.commands.batch.rewritten import show_rewritten
from elf.options.fleet import output_option

EXAMPLES = """\b
Examples:
  elf batch split 8 --archive shop-archive
"""


@click.command(epilog=EXAMPLES, short_help="Cut an archive into regions anew.")
@click.argument("regions", metavar="N", type=click.IntRange(1, 10_000))
@archives_option
@master_option
@output_option("table", "json")
def split(regions: int, archives: tuple[str, ...], master: str, output: str) -> None:
    """Cut each stream of each agent into N ranges of keys with about as many rows, a segment each.

    More regions are more tasks side by side for Spark, and less to read for a narrow range.
    """
    from elf.batch.table.compaction import split as split_table

    with opened_table(archives, master) as table:
        done = split_table(table, regions)
    show_rewritten(done, output)
