"""`elf ca init`."""

from __future__ import annotations

from pathlib import Path

import click

from elf.commands.ca.options import authority_errors, directory_argument, new_password, password_option
from elf.errors import UsageError
from overlay import Authority, AuthorityDirectory

EXAMPLES = """\b
Examples:
  elf ca init shop-ca --fleet shop
  elf ca init shop-ca --fleet shop --password-file shop-ca.password
"""


@click.command(epilog=EXAMPLES, short_help="Make the authority of a new fleet.")
@directory_argument
@click.option("--fleet", required=True, help="The fleet's name.")
@password_option
@click.option("--no-password", is_flag=True, help="Leave the key unprotected, for a fleet nobody would miss.")
def init(directory: Path, fleet: str, password_file: Path | None, no_password: bool) -> None:
    """Make the authority of a new fleet, in CA_DIR: its certificate, and its key, encrypted with a password.

    An authority that replaces another one of the same fleet is made the same way.
    """
    if no_password and password_file is not None:
        raise UsageError("--no-password and --password-file say two different things")
    with authority_errors():
        authority = Authority.create(fleet)
        Authority.check_free(directory)
        AuthorityDirectory.create(directory, authority, None if no_password else new_password(password_file))
    click.echo(f"{directory}: the authority of fleet {fleet}; keep its key where no agent is")
