"""`elf creator list`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec

from elf.commands.ca.described import described_directory
from elf.commands.ca.options import authority_errors
from elf.commands.ca.showing import moment
from elf.commands.creator.options import ca_option
from elf.options.fleet import output_option
from elf.terminal.terminal import tell
from overlay import CREATOR_ROLE, AuthorityDirectory

EXAMPLES = """\b
Examples:
  elf creator list --ca shop-ca
  elf creator list --ca shop-ca --output json | jq -r 'select(.state == "valid") | .name'

\b
Columns: KEY stands for the creator's public key; STATE is valid, expired or revoked.
"""


class TrustedCreator(msgspec.Struct, frozen=True):
    """A creator's certificate; `revoked` is the time of its revocation, or None."""

    name: str
    key: str
    serial: str
    expires: datetime
    state: str
    revoked: datetime | None


@click.command("list", epilog=EXAMPLES, short_help="List the creators the fleet trusts, or has trusted.")
@ca_option
@output_option("table", "json")
def list_creators(directory: Path, output: str) -> None:
    """List all certificates that the authority in CA_DIR has made for creators. No password is needed."""
    with authority_errors():
        found = _creators(AuthorityDirectory(directory))
    if output == "json":
        for one in found:
            click.echo(msgspec.json.encode(one))
    elif found:
        _print(found)
    else:
        tell(f"{directory}: trusts no creators yet; elf creator trust makes it trust one")


def _creators(directory: AuthorityDirectory) -> list[TrustedCreator]:
    folder = described_directory(directory)
    since = {one.serial: one.since for one in folder.revoked}
    return [
        TrustedCreator(one.name, one.node_id, one.serial, one.expires, one.state, since.get(one.serial))
        for one in folder.issued
        if one.role == CREATOR_ROLE
    ]


def _print(creators: Sequence[TrustedCreator]) -> None:
    from elf.output.listing import plain_table
    from elf.terminal.console import open_console

    rows = [(one.name, one.key, one.serial, moment(one.expires), one.state) for one in creators]
    open_console(sys.stdout).print(plain_table(["NAME", "KEY", "SERIAL", "VALID UNTIL", "STATE"], rows))
