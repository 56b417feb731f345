"""`elf stop`: the end of a job, on every agent."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from agent.control.messages import Stopped
from elf.asking import ANSWER_TIMEOUT_S, output_option, socket_option
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.terminal import printable

EXAMPLES = """\b
Examples:
  elf stop errors
  elf jobs --output json | jq -r .app | xargs -n 1 elf stop
"""


@click.command(epilog=EXAMPLES, short_help="Stop a job.")
@click.argument("app", metavar="APP")
@output_option("table", "json")
@socket_option
def stop(app: str, output: str, socket: Path | None) -> None:
    """Stop the job APP on all agents, whoever submitted it; those who follow it are told."""
    SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).stop(app)
    click.echo(msgspec.json.encode(Stopped(app)).decode() if output == "json" else f"{printable(app)}: stopped")
