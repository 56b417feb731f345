"""`elf jobs`: the fleet's jobs."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, output_option, socket_option

EXAMPLES = """\b
Examples:
  elf jobs
  elf jobs --output json | jq -r 'select(.agents < .expected) | .app'

\b
Columns: AGENTS run the job, of how many on its roster; UP TO is where its last window ended.
NAME.STAGE is a stage of the job NAME.
"""


@click.command(epilog=EXAMPLES, short_help="List the fleet's jobs.")
@output_option("table", "json")
@socket_option
def jobs(output: str, socket: Path | None) -> None:
    """List the jobs of the fleet, as far as the agent knows them."""
    found = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).jobs()
    if output == "json":
        for job in found:
            click.echo(msgspec.json.encode(job))
        return
    from elf.output.listing import listed_jobs, print_listing

    print_listing(listed_jobs(found), output)
