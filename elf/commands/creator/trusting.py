"""`elf creator trust`."""

from __future__ import annotations

from pathlib import Path

import click

from elf.client.remote_agent import AUTHORITY_FILE
from elf.commands.ca.options import FILE, authority_errors, days_option, password_option, unlocked
from elf.commands.ca.showing import moment
from elf.commands.creator.options import ca_option
from elf.errors import ElfError
from overlay import AuthorityDirectory, read_public_key

EXAMPLES = """\b
Examples:
  elf creator trust creator.pub --name maria --ca shop-ca
  elf creator trust from-maria.pub --name maria --ca shop-ca --days 30 --out for-maria.pem
"""


@click.command(epilog=EXAMPLES, short_help="Let the fleet trust a creator: make the certificate for its key.")
@click.argument("public_key", metavar="PUBFILE", type=FILE)
@click.option("--name", required=True, help="The creator's name in the fleet.")
@ca_option
@days_option
@click.option(
    "--out",
    metavar="FILE",
    type=FILE,
    help="Where the certificate goes; else beside PUBFILE, with .pem for its suffix.",
)
@password_option
def trust(
    public_key: Path, name: str, directory: Path, days: float, out: Path | None, password_file: Path | None
) -> None:
    """Make the certificate for the public key in PUBFILE, a creator.pub of elf creator init, by which the fleet of the
    authority in CA_DIR trusts the creator NAME.

    Make sure that the file comes from that person. The certificate is no secret. To renew one, make another.
    """
    file = public_key.with_suffix(".pem") if out is None else out
    if file.exists():
        raise ElfError(f"{file}: is already there and is not written over: name another file with --out")
    with authority_errors():
        key, folder = read_public_key(public_key), AuthorityDirectory(directory)
        made = folder.trust(unlocked(folder, password_file), name, key, days=days, out=file)
    click.echo(f"{file}: creator {name} of fleet {folder.fleet}, key {made.node_id}, until {moment(made.expires)}")
    click.echo(f"next: give it to {name}, who puts it beside creator.key as creator.pem")
    click.echo(f"      and {directory / AUTHORITY_FILE} too, to ask agents from elsewhere (--agent HOST:PORT)")
