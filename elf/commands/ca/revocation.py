"""`elf ca revoke`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from cryptography.x509 import ReasonFlags

from elf.commands.ca.options import authority_errors, directory_argument, password_option, unlocked
from elf.errors import ElfError
from elf.terminal.terminal import printable
from overlay import AGENT_ROLE, AuthorityDirectory

EXAMPLES = """\b
Examples:
  elf ca revoke shop-ca web-5 --reason key-compromise
  elf ca revoke shop-ca 39b6c1de0a7f4c5d8e9fa0b1c2d3e4f5
  elf ca revoke shop-ca old/agent.pem --reason superseded
"""
REASONS = {
    "unspecified": ReasonFlags.unspecified,
    "key-compromise": ReasonFlags.key_compromise,
    "superseded": ReasonFlags.superseded,
    "cessation-of-operation": ReasonFlags.cessation_of_operation,
}
reason_option = click.option(
    "--reason", type=click.Choice(list(REASONS)), default="unspecified", show_default=True,
    help="Why, for the record.",
)  # fmt: skip


@click.command(epilog=EXAMPLES, short_help="Shut an agent out of the fleet.")
@directory_argument
@click.argument("who", metavar="NAME|ID|SERIAL|FILE")
@reason_option
@password_option
def revoke(directory: Path, who: str, reason: str, password_file: Path | None) -> None:
    """Revoke all certificates of the agent with this name or id, the one with this serial number, or the one in FILE.

    Writes a new crl.pem in CA_DIR, the signed list of all that are revoked. It does nothing until an agent has it:
    copy it over the file that identity.crl names on one agent, and the fleet passes it on by itself.
    """
    with authority_errors():
        folder = AuthorityDirectory(directory)
        revoke_all(folder, who, _serials(folder, who), reason, password_file)


def revoke_all(
    folder: AuthorityDirectory, who: str, serials: Sequence[int], reason: str, password_file: Path | None
) -> None:
    """Revokes certificates and says so."""
    number = folder.revoke(unlocked(folder, password_file), serials, REASONS[reason])
    count = f"{len(serials)} certificate{'s' if len(serials) > 1 else ''}"
    click.echo(
        f"{folder.path / 'crl.pem'}: {count} of {printable(who)} revoked, list number {number}; give it to one agent"
    )


def _serials(folder: AuthorityDirectory, who: str) -> list[int]:
    issued = folder.certificates_of(who, AGENT_ROLE)
    if issued:
        return [one.number for one in issued]
    if not Path(who).is_file():
        what = "has issued no certificate to an agent of that name, id or serial number, and it is no file"
        raise ElfError(f"{who}: {folder.path} {what}")
    return [folder.serial_of_file(Path(who))]
