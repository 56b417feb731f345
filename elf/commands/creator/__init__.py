"""`elf creator`: who owns jobs, and whom the fleet trusts to."""

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


@click.group(epilog=EXAMPLES, short_help="Make the keys that own jobs, and say whom the fleet trusts.")
def creator() -> None:
    """Make the keys by which people own jobs, and say whose keys the fleet trusts.

    A creator makes a key, and who holds the fleet's authority (`elf ca`) makes the certificate for it. Agents trust
    what is signed with the key for as long as the certificate is good: no agent needs to be told of it. It lets
    nobody into the fleet.
    """


for command in (init, trust, revoke, list_creators):
    creator.add_command(command)
