"""`elf ask`: the last windows of a job that runs already, by its name."""

from __future__ import annotations

from pathlib import Path

import click

from agent.control.messages import ASKED_WINDOWS_MAX
from elf.asking import ANSWER_TIMEOUT_S, output_option, socket_option
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf ask errors
  elf ask errors --windows 12 --output csv
  elf ask errors --output json | jq .rows
"""


@click.command(epilog=EXAMPLES, short_help="Ask a running job for its last windows.")
@click.argument("app", metavar="APP")
@click.option(
    "--windows", metavar="N", type=click.IntRange(1, ASKED_WINDOWS_MAX), default=1, show_default=True,
    help=f"Its last N windows, oldest first; a job keeps {ASKED_WINDOWS_MAX}.",
)  # fmt: skip
@output_option("table", "json", "csv")
@socket_option
def ask(app: str, windows: int, output: str, socket: Path | None) -> None:
    """Print the last windows of the running job APP, and end.

    The question is routed to the job's master, whichever agent is asked. Before the first window has closed there is
    nothing to print, which is said on standard error.
    """
    from elf.output import result_writer

    answer = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).ask(app, windows=windows)
    if not answer.windows:
        tell(f"{printable(answer.app)}: no window is out yet: elf follow waits for the next one")
    writer = result_writer(output, answer.columns)
    for window in answer.windows:
        writer.write(window)
