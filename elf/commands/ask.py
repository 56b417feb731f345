"""`elf ask`: the last windows of a running job, by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from agent.control.messages import ASKED_WINDOWS_MAX
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, app_argument, output_option, socket_option
from elf.terminal.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf ask errors
  elf ask errors --windows 12 --output csv
  elf ask errors --output json | jq .rows
  elf ask errors --windows 12 "SELECT path, SUM(n) AS n FROM windows GROUP BY path ORDER BY n DESC LIMIT 3"
"""


@click.command(epilog=EXAMPLES, short_help="Ask a running job for its last windows.")
@app_argument
@click.argument("query_text", metavar="[QUERY]", required=False)
@click.option(
    "--windows", metavar="N", type=click.IntRange(1, ASKED_WINDOWS_MAX), default=1, show_default=True,
    help=f"Its last N windows, oldest first; a job keeps {ASKED_WINDOWS_MAX}.",
)  # fmt: skip
@output_option("table", "json", "csv", "plot")
@socket_option
def ask(app: str, query_text: str | None, windows: int, output: str, socket: Path | None) -> None:
    """Print the last windows of the running job APP, or the results of a QUERY over their rows, and end.

    The request is routed to the job's master, whichever agent is asked. Before the first window has closed there is
    nothing to print, which is reported on standard error. A QUERY reads the rows as the stream `windows`, each with the
    window_start and window_end of its window.
    """
    from elf.output.output import result_writer, write_all

    answer = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).ask(app, windows=windows)
    if not answer.windows:
        tell(f"{printable(answer.app)}: no window is published yet: elf follow waits for the next one")
        return
    if query_text is not None:
        from elf.statements.file_backend import answer_over  # it needs the query engine, which asking does not

        columns, results = answer_over(answer.windows, query_text)
        write_all(results, result_writer(output, columns, measures=_measures(output, query_text)))
    else:
        write_all(answer.windows, result_writer(output, answer.columns, measures=_measures(output, answer.query)))


def _measures(output: str, query_text: str) -> Sequence[str]:
    if output != "plot":
        return ()
    from elf.output.measures import measures_of

    return measures_of(query_text)
