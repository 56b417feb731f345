"""`elf tree`: the trees in which a job's partial results travel."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, app_argument, output_option, socket_option

EXAMPLES = """\b
Examples:
  elf tree top-products
  elf tree top-products --output json | jq -r '.places[] | select(.lag_s > 10) | .agent'

\b
Each line is an agent below its parent: its roles, the round trip to the parent, how far behind the wall clock the last
pane is that it has passed on, the runs that wait in it and for whom, and why it has this parent:
  prefix       the parent shares more digits with the job's id: the next hop towards it
  nearer       the parent is numerically closer to the job's id
  passed down  a full node has passed it on to this one
"""


@click.command(epilog=EXAMPLES, short_help="Draw the tree of a job: who sends to whom, and who lags.")
@app_argument
@output_option("table", "json")
@socket_option
def tree(app: str, output: str, socket: Path | None) -> None:
    """Draw the trees of a job, from its master down, as all agents describe their places."""
    found = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).tree(app)
    if output == "json":
        click.echo(msgspec.json.encode(found))
        return
    from elf.output.tree_drawing import drawn_tree
    from elf.terminal.console import open_console

    open_console(sys.stdout).print(drawn_tree(found))
