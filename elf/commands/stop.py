"""`elf stop`: the end of a job, on every agent."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from agent.control.messages import JobStopped
from elf.client.control_socket import control_socket
from elf.client.errors import OwnedJobError
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, app_argument, output_option, socket_option
from elf.signing.creator import creator_option, owned_job, stop_signature
from elf.signing.stages import stages_of, stop_stages
from elf.terminal.terminal import printable

EXAMPLES = """\b
Examples:
  elf stop errors
  elf jobs --output json | jq -r .app | xargs -n 1 elf stop
"""


@click.command(epilog=EXAMPLES, short_help="Stop a job.")
@app_argument
@creator_option
@output_option("table", "json")
@socket_option
def stop(app: str, creator_folder: Path | None, output: str, socket: Path | None) -> None:
    """Stop the job APP on all agents; its followers are told.

    A query is its owner's to stop (`elf jobs` shows the owner), and anybody's who may operate it. A job that its
    creator has signed is stopped with the creator's key only, together with its stages.
    """
    client = SyncClient(control_socket(socket, creator_folder), ANSWER_TIMEOUT_S)
    try:
        client.stop(app)
    except OwnedJobError:
        if (owned := owned_job(client, app)) is None:
            raise
        stages = stages_of(client, owned)
        client.stop(owned.app, app_id=owned.app_id, seal=stop_signature(owned, creator_folder))
        stop_stages(client, list(stages.values()), creator_folder)
    click.echo(msgspec.json.encode(JobStopped(app)).decode() if output == "json" else f"{printable(app)}: stopped")
