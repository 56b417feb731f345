"""`elf follow`: the windows of a running job, through restarts of the asked agent."""

from __future__ import annotations

from pathlib import Path

import click

from elf.options.fleet import (
    app_argument,
    connected,
    output_option,
    socket_option,
    timeout_option,
    view,
    watch_option,
    windows_option,
)
from elf.output.view import ViewLimits
from elf.statements.session import show_followed

EXAMPLES = """\b
Examples:
  elf follow errors
  elf follow errors --windows 1 --output json
  elf follow errors --socket /run/elf/control.sock --output csv >> errors.csv

\b
Exit codes: 0 done, or the job has finished; 1 failed, or the job failed, was stopped or lost; 124 --timeout,
130 Ctrl-C or SIGTERM, 141 nobody reads the output any more. The job goes on in any case.
"""


@click.command(epilog=EXAMPLES, short_help="Attach to a running job.")
@app_argument
@windows_option
@timeout_option
@output_option("table", "json", "csv", "plot")
@watch_option
@socket_option
def follow(
    app: str, windows: int | None, timeout_s: float | None, output: str, watch: bool, socket: Path | None
) -> int:
    """Print the windows of the running job APP as they close, like the command that submitted it.

    When the asked agent goes away, this is reported, and the command tries again until the agent answers; windows that
    closed in the meantime follow then, and none is printed twice. Ending this command does not stop the job.
    """
    shown = view(output, watch=watch)
    with connected(socket, timeout_s) as (client, deadline), client.follow(app, reconnect=True) as job:
        return show_followed(job, shown, ViewLimits(windows, deadline), socket)
