"""`elf creator revoke`."""

from __future__ import annotations

from pathlib import Path

import click

from elf.commands.ca.options import authority_errors, password_option
from elf.commands.ca.revocation import reason_option, revoke_all
from elf.commands.creator.options import ca_option
from elf.errors import ElfError
from overlay import CREATOR_ROLE, AuthorityDirectory

EXAMPLES = """\b
Examples:
  elf creator revoke maria --ca shop-ca --reason key-compromise
  elf creator revoke 39b6c1de0a7f4c5d8e9fa0b1c2d3e4f5 --ca shop-ca
"""


@click.command(epilog=EXAMPLES, short_help="Let the fleet trust a creator no more.")
@click.argument("who", metavar="NAME|KEY|SERIAL")
@ca_option
@reason_option
@password_option
def revoke(who: str, directory: Path, reason: str, password_file: Path | None) -> None:
    """Revoke all certificates of the creator with this name or key (as elf creator list shows it), or the one with this
    serial number.

    Writes a new crl.pem in CA_DIR, the signed list of all that are revoked. It does nothing until an agent has it:
    copy it over the file that identity.crl names on one agent, and the fleet passes it on by itself.
    """
    with authority_errors():
        folder = AuthorityDirectory(directory)
        serials = [one.number for one in folder.certificates_of(who, CREATOR_ROLE)]
        if not serials:
            raise ElfError(
                f"{who}: no creator {directory} trusts has that name, key or serial number; elf creator list"
            )
        revoke_all(folder, who, serials, reason, password_file)
