"""`elf batch run`."""

from __future__ import annotations

import sys
from itertools import chain

import click
import msgspec

from agent.control.messages import BeyondGroups
from elf.commands.batch.opened import opened_table
from elf.commands.batch.options import (
    archives_option,
    from_option,
    master_option,
    moments,
    skip_torn_option,
    to_option,
)
from elf.errors import UsageError
from elf.options.fleet import output_option
from elf.options.groups import beyond_groups_option, max_groups_option
from elf.options.tables import named_files, tables_option
from elf.statements.statements import ExplainStatement, read_statement
from elf.terminal.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf batch run "SELECT status, COUNT(*) FROM web GROUP BY status" --archive shop-archive
  elf batch run "SELECT path, SUM(ms) FROM web GROUP BY path WINDOWING 1 HOUR" --archive shop-archive --from 2026-01-01
  elf batch run "SELECT COUNT(*) FROM web" --archive hdfs://store/shop --master spark://host:7077 --explain
"""


@click.command(epilog=EXAMPLES, short_help="Answer a query over an archive.")
@click.argument("query_text", metavar="QUERY")
@archives_option
@from_option
@to_option
@tables_option
@max_groups_option
@beyond_groups_option
@click.option("--explain", is_flag=True, help="Print how it would be computed, and what would be read, instead.")
@skip_torn_option
@master_option
@output_option("table", "json", "csv", "plot")
def run(
    query_text: str,
    archives: tuple[str, ...],
    since: str | None,
    until: str | None,
    tables: tuple[str, ...],
    max_groups: int,
    beyond_groups: BeyondGroups,
    explain: bool,
    skip_torn: bool,
    master: str,
    output: str,
) -> None:
    """Answer QUERY over the events of an archive, as agents and `elf local` would: the same rows, from the same code.

    Spark itself computes, over the stored columns, whatever it can compute exactly; anything else is computed by
    agents' code where the rows are. Either way partial results are combined, and completed by the code of a job's
    master.
    """
    import query
    from elf.batch.query.explain import explained_run
    from elf.batch.query.run import BatchOptions, BatchRun
    from elf.output.output import result_writer, write_all

    since_ms, until_ms = moments(since, until)
    statement = read_statement(query_text)
    if isinstance(statement, ExplainStatement):
        query_text, explain = statement.text, True
    if explain and output not in ("table", "json"):
        raise UsageError("--explain prints a table or, with --output json, an object: there is no other")
    options = BatchOptions(since_ms, until_ms, named_files(tables), max_groups, beyond_groups)
    with opened_table(archives, master, skip_torn=skip_torn) as table:
        try:
            asked = BatchRun(query_text, table, options)
        except query.QueryError as error:
            raise UsageError(str(error)) from error
        for warning in asked.warnings:
            tell(f"elf batch run: {printable(warning)}")
        if explain:
            plan = explained_run(query_text, asked)
            lines = [msgspec.json.encode(plan).decode()] if output == "json" else plan.text().splitlines()
            click.echo("\n".join(map(printable, lines)))
            return
        results = asked.results()
        first = next(results, None)
    writer = result_writer(output, asked.columns, measures=query.measures(asked.plan))
    write_all(results if first is None else chain([first], results), writer)
    if first is None:
        between = " between --from and --to" if (since_ms, until_ms) != (None, None) else ""
        tell(f"elf batch run: no window: no events{between}")
    sys.stdout.flush()
