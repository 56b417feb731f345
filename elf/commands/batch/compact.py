"""`elf batch compact`."""

from __future__ import annotations

import click

from elf.commands.batch.opened import opened_table
from elf.commands.batch.options import archives_option, master_option
from elf.commands.batch.rewritten import show_rewritten
from elf.options.fleet import output_option

EXAMPLES = """\b
Examples:
  elf batch compact --archive shop-archive
  elf batch compact --archive shop-archive --major
"""


@click.command(epilog=EXAMPLES, short_help="Make fewer and larger segments of many small ones.")
@archives_option
@click.option(
    "--major", is_flag=True, help="Sort all segments of each stream anew, and drop rows that are there twice."
)
@master_option
@output_option("table", "json")
def compact(archives: tuple[str, ...], major: bool, master: str, output: str) -> None:
    """Merge small neighbouring segments of a stream, and delete files that are no longer needed.

    Agents may archive meanwhile, and queries may run: each step is one commit, and files of removed segments stay for
    another hour. If the command is killed, everything is as it was after the last commit.
    """
    from elf.batch.table.compaction import compact as compact_table

    with opened_table(archives, master) as table:
        done = compact_table(table, major=major)
    show_rewritten(done, output)
