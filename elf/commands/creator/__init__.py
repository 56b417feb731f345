"""`elf creator`: owners of jobs, and the fleet's trust in them."""

from __future__ import annotations

import click

from elf.commands.creator.creation import init
from elf.commands.creator.listing import list_creators
from elf.commands.creator.revocation import revoke
from elf.commands.creator.trusting import trust

EXAMPLES = """\b
Examples:
  elf creator init maria                                     # maria, for herself
  elf creator trust creator.pub --name maria --ca shop-ca    # who holds the fleet's authority
  elf creator list --ca shop-ca
  elf creator revoke maria --ca shop-ca --reason key-compromise
"""


@click.group(epilog=EXAMPLES, short_help="Make the keys that own jobs, and have the fleet trust them.")
def creator() -> None:
    """Make the keys by which people own jobs, and tell the fleet which keys to trust.

    A creator makes a key, and the holder of the fleet's authority (`elf ca`) makes a certificate for it. Agents trust
    jobs signed with the key while the certificate is valid: no agent needs to be told of it. The certificate admits
    nobody to the fleet.
    """


for command in (init, trust, revoke, list_creators):
    creator.add_command(command)
