"""`elf logs`: the lines that a job's code has logged on all its agents."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from agent.control.messages import LOG_LINES_MAX
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, app_argument, output_option, socket_option
from elf.terminal.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf logs micro-promotion
  elf logs micro-promotion --lines 1000 --output json | jq -r .text
"""


@click.command(epilog=EXAMPLES, short_help="Show the lines that a job's code has logged.")
@app_argument
@click.option(
    "--lines", metavar="N", type=click.IntRange(1, LOG_LINES_MAX), default=100, show_default=True,
    help=f"The last N lines; a job's master keeps {LOG_LINES_MAX}.",
)  # fmt: skip
@output_option("table", "json")
@socket_option
def logs(app: str, lines: int, output: str, socket: Path | None) -> None:
    """Print the lines that the code of the job APP has written with print and self.log, beside all of its agents, and
    the reason if it has failed.

    The job's master keeps the last lines; another master begins anew. They can be read for a while after the job has
    ended.
    """
    log = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).log(app, lines=lines)
    if log.dropped and output == "table":
        tell(f"{printable(log.app)}: {log.dropped} lines before these")
    for line in log.lines:
        if output == "json":
            click.echo(msgspec.json.encode(line).decode())
        else:
            click.echo(f"{line.time}  {printable(line.agent)}  {printable(line.text)}")
