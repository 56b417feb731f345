"""`elf query`: queries over a whole fleet, whose windows are shown as they close."""

from __future__ import annotations

from pathlib import Path

import click

from agent.control.messages import BeyondGroups
from elf.client.sync_client import SyncClient
from elf.errors import UsageError
from elf.options.fleet import (
    connected,
    explain_latency_option,
    output_option,
    socket_option,
    timeout_option,
    view,
    watch_option,
    windows_option,
)
from elf.options.groups import beyond_groups_option, max_groups_option
from elf.output.view import ViewLimits
from elf.statements.script import Script, script_file, script_of

EXAMPLES = """\b
Examples:
  elf query "SELECT status, COUNT(*) FROM access GROUP BY status WINDOWING 10 SECONDS"
  elf query --once "SELECT path, COUNT(*) AS n FROM access GROUP BY path ORDER BY n DESC LIMIT 10"
  elf query --windows 6 --output csv "SELECT COUNT(*) FROM * WINDOWING 1 MINUTE" > minutes.csv
  elf query --output plot "SELECT status, COUNT(*) FROM access GROUP BY status WINDOWING 10 SECONDS"
  elf query --detach --app errors "SELECT path, COUNT(*) FROM access WHERE status >= 500 GROUP BY path
    WINDOWING 1 MINUTE"
  elf query --explain "SELECT product, SUM(clicks) FROM events GROUP BY product WINDOWING 30 SECONDS"
  elf query --explain-latency "SELECT status, COUNT(*) FROM access GROUP BY status WINDOWING 1 SECOND WITHIN 2 SECONDS"
  elf query "SHOW STREAMS; DESCRIBE access"
  elf query --once -f report.elf
  generate-queries | elf query --detach -f -

\b
Statements: queries, EXPLAIN [ANALYZE | LATENCY] query, SHOW STREAMS, SHOW JOBS, SHOW FUNCTIONS, DESCRIBE stream.
Those that `;` separates run one after the other; the first that fails is the last.

\b
Exit codes: 0 done, 1 failed (also when somebody else stopped the job), 2 the query cannot be run as it is
written, 124 --timeout, 130 Ctrl-C or SIGTERM, 141 nobody reads the output any more.
"""


@click.command(epilog=EXAMPLES, short_help="Ask a fleet, and see windows as they close.")
@click.argument("query_text", metavar="[QUERY]", required=False)
@click.option(
    "-f", "--file", "file", metavar="FILE", type=click.Path(), help="Run the statements in FILE; `-` is standard input."
)
@click.option(
    "--app", metavar="NAME", help="The job's name, by which others follow and stop it; by default one is made up."
)
@click.option(
    "--once", is_flag=True, help="Query the present content of the logs, then end the job. Otherwise it goes on."
)
@windows_option
@timeout_option
@click.option("--detach", is_flag=True,
              help="Leave the job running: print its name and end, after --windows or --timeout if given.")  # fmt: skip
@max_groups_option
@beyond_groups_option
@click.option(
    "--explain", is_flag=True, help="Print the steps of the plan, and the place of each; nothing is submitted."
)
@explain_latency_option
@output_option("table", "json", "csv", "plot")
@watch_option
@socket_option
def query(
    query_text: str | None,
    file: str | None,
    app: str | None,
    once: bool,
    windows: int | None,
    timeout_s: float | None,
    detach: bool,
    max_groups: int,
    beyond_groups: BeyondGroups,
    explain: bool,
    explain_latency: bool,
    output: str,
    watch: bool,
    socket: Path | None,
) -> int:
    """Run QUERY on every agent that has its stream, and print each window when it closes.

    The job ends with this command: with Ctrl-C, after --windows or --timeout, or when the logs are read (--once, and
    queries without WINDOWING). Standard error reports how many agents run it.
    """
    if (query_text is None) == (file is None):
        raise UsageError("elf query takes either a QUERY or a file of them, -f FILE")
    script = script_of(query_text) if query_text is not None else script_file(file or "")
    if explain and explain_latency:
        raise UsageError("either --explain or --explain-latency")
    if explain_latency and once:
        raise UsageError("--explain-latency is of live queries, without --once")
    if explain:
        return _explain(script, once=once, max_groups=max_groups, beyond_groups=beyond_groups, output=output)
    if app is not None and not 1 <= len(app) <= 255:
        raise UsageError("--app: a job's name has 1 to 255 characters")
    if app is not None and len(script.statements) > 1:
        raise UsageError(f"--app names one job, but there are {len(script.statements):,} statements")
    from elf.statements.fleet_backend import FleetBackend, QueryOptions

    shown = view(output, watch=watch)
    options = QueryOptions(app, once, detach, max_groups, beyond_groups)
    unsure = "; elf jobs tells whether the job was submitted before that" if detach else ""
    with connected(socket, timeout_s, unsure) as (client, deadline):
        if explain_latency:
            return _explain_latency(client, script, output)
        return script.run(FleetBackend(client, socket, options), shown, ViewLimits(windows, deadline))


def _explain(script: Script, *, once: bool, max_groups: int, beyond_groups: BeyondGroups, output: str) -> int:
    from elf.explain import print_explanation  # it needs all of ELF QL, which asking does not

    for text in script.statements:
        with script.blamed():
            print_explanation(text, once=once, max_groups=max_groups, beyond_groups=beyond_groups, output=output)
    return 0


def _explain_latency(client: SyncClient, script: Script, output: str) -> int:
    from elf.latency_explanation import print_latency_explanation  # it needs all of ELF QL, and its model of latency

    for text in script.statements:
        with script.blamed():
            print_latency_explanation(client, text, output)
    return 0
