"""`elf ca`: the fleet's certificate authority, which admits agents and shuts them out."""

from __future__ import annotations

import click

from elf.commands.ca.admission import issue, renew
from elf.commands.ca.creation import init
from elf.commands.ca.enrolment import serve, token
from elf.commands.ca.revocation import revoke
from elf.commands.ca.showing import show

EXAMPLES = """\b
Examples:
  elf ca init shop-ca --fleet shop
  elf ca token shop-ca
  elf ca serve shop-ca --listen 10.0.0.2
  elf ca issue shop-ca web-5 --out web-5
  elf ca renew shop-ca web-5
  elf ca revoke shop-ca web-5 --reason key-compromise
  elf ca show shop-ca
"""


@click.group(epilog=EXAMPLES, short_help="Make the certificates agents know each other by.")
def ca() -> None:
    """Make the certificates by which the agents of a fleet know each other, and revoke them. `elf creator` does the
    same for owners of jobs.

    The authority's key admits agents: keep the folder that `elf ca init` makes away from the agents, and give each only
    the files that `elf ca issue` makes for it. The key is encrypted; the commands that use it ask for its password on a
    terminal, or read it from --password-file.
    """


for command in (init, issue, renew, revoke, serve, show, token):
    ca.add_command(command)
