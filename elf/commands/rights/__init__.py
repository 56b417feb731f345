"""`elf rights`: who one is to an agent, and what one may do there."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from agent.access.owners import shown_owner
from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.fleet import ANSWER_TIMEOUT_S, output_option, socket_option
from elf.terminal.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf rights
  elf rights --agent web-5:7701
  elf rights --output json | jq -r .roles[].role
"""


@click.command(epilog=EXAMPLES, short_help="Say who you are to the agent, and what you may do.")
@output_option("table", "json")
@socket_option
def rights(output: str, socket: Path | None) -> None:
    """Say who you are to the agent, and your roles: over which streams, and over whose jobs beside your own.

    read: follow and ask jobs, describe streams. query: also run queries; change and stop your own. operate: also change
    and stop those of others. [[access]] in agent.toml grants roles.
    """
    found = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).rights()
    if output == "json":
        click.echo(msgspec.json.encode(found))
        return
    from elf.output.listing import Listing, print_listing

    tell(printable(f"you are {found.name}; your queries belong to {shown_owner(found.owner)}"))
    rows = [[one.role, ", ".join(one.streams) or "-", ", ".join(one.apps) or "your own"] for one in found.roles]
    print_listing(Listing(("ROLE", "STREAMS", "JOBS"), rows, "you may do nothing here"), output)
