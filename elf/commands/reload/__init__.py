"""`elf reload`: an agent reads its configuration again while it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from elf.client.control_socket import control_socket
from elf.client.sync_client import SyncClient
from elf.options.configuration import FAULTY
from elf.options.fleet import ANSWER_TIMEOUT_S, output_option, socket_option
from elf.terminal.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf config check /etc/elf/agent.toml && elf reload
"""


@click.command(epilog=EXAMPLES, short_help="Let an agent read its configuration again.")
@output_option("table", "json")
@socket_option
def reload(output: str, socket: Path | None) -> None:
    """Let the agent read its configuration again, and say what has changed.

    Streams, tables, the archive, limits, rules of access and the log level change at once; other keys are named,
    and wait for a restart.
    Exit code 2: the configuration has faults, which are printed, and the one before stays in force.
    """
    found = SyncClient(control_socket(socket), ANSWER_TIMEOUT_S).reload()
    if output == "json":
        click.echo(msgspec.json.encode(found))
    else:
        for line in found.changes:
            click.echo(printable(line))
        for line in found.restart:
            click.echo(printable(f"{line}: needs a restart"))
        for line in found.faults:
            tell(printable(line))
        if not found.faults:
            click.echo(f"configuration {found.generation} is in force" + ("" if found.changes else ", unchanged"))
        else:
            tell(f"configuration {found.generation} stays in force")
    sys.exit(FAULTY if found.faults else 0)
