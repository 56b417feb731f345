"""`elf ca issue` and `elf ca renew`."""

from __future__ import annotations

from pathlib import Path

import click

from elf.commands.ca.options import (
    DIRECTORY,
    authority_errors,
    days_option,
    directory_argument,
    key_password_option,
    password_in,
    password_option,
    unlocked,
)
from elf.errors import UsageError
from overlay import AgentFiles, AuthorityDirectory, address_id, format_address, format_id, parse_address, parse_id

ISSUE_EXAMPLES = """\b
Examples:
  elf ca issue shop-ca web-5 --out web-5
  elf ca issue shop-ca web-5 --out web-5 --id-from-address 10.0.0.5:7700
"""
RENEW_EXAMPLES = """\b
Examples:
  elf ca renew shop-ca web-5
  elf ca renew new-shop-ca web-5 --days 90
"""


@click.command(epilog=ISSUE_EXAMPLES, short_help="Admit an agent: make its certificate and key.")
@directory_argument
@click.argument("name")
@click.option("--out", metavar="DIR", type=DIRECTORY, required=True, help="Where the agent's three files go.")
@days_option
@click.option("--node-id", metavar="ID", help="The agent's id (32 hexadecimal digits), if it had one before.")
@click.option(
    "--id-from-address", metavar="HOST:PORT", help="Let the id be the hash of this address, not a random one."
)
@key_password_option
@password_option
def issue(
    directory: Path,
    name: str,
    out: Path,
    days: float,
    node_id: str | None,
    id_from_address: str | None,
    key_password_file: Path | None,
    password_file: Path | None,
) -> None:
    """Admit the agent NAME to the fleet whose authority is in CA_DIR.

    Makes its certificate and key, with the authority's certificate beside them, in the folder --out. The agent's id is
    drawn at random, so that no agent chooses its place among the others. With --id-from-address it is the hash of an
    address, as in the paper.
    """
    identifier = _chosen_id(node_id, id_from_address)
    key_password = None if key_password_file is None else password_in(key_password_file)
    with authority_errors():
        folder, files = AuthorityDirectory(directory), AgentFiles(out)
        files.check_free()
        authority = unlocked(folder, password_file)
        credentials = folder.issue(authority, name, node_id=identifier, days=days, key_password=key_password)
        files.save(credentials, authority.certificate_pem)
    click.echo(f"{out}: agent {name} of fleet {authority.fleet}, id {format_id(credentials.node_id)}")


@click.command(epilog=RENEW_EXAMPLES, short_help="Give an agent a new certificate and key, with the id it has.")
@directory_argument
@click.argument("agent", metavar="AGENT_DIR", type=DIRECTORY)
@days_option
@key_password_option
@password_option
def renew(
    directory: Path, agent: Path, days: float, key_password_file: Path | None, password_file: Path | None
) -> None:
    """Replace certificate and key in AGENT_DIR, which `elf ca issue` made, by new ones for the same agent.

    Name and id stay. The certificate may be that of another authority of the fleet, which the one in CA_DIR replaces;
    ca.pem in AGENT_DIR then has both. Running agents take new files by themselves. The old certificate is valid until
    it expires: if its key may be known to others, revoke it.
    """
    key_password = None if key_password_file is None else password_in(key_password_file)
    with authority_errors():
        folder, files = AuthorityDirectory(directory), AgentFiles(agent)
        name, node_id = folder.check_renewable(files.certificate(), files.certificate_file)
        files.check_protection(key_password)
        authority = unlocked(folder, password_file)
        credentials = folder.issue(authority, name, node_id=node_id, days=days, key_password=key_password)
        files.replace(credentials, authority.certificate_pem)
    click.echo(f"{agent}: agent {name} of fleet {authority.fleet}, id {format_id(credentials.node_id)}, renewed")


def _chosen_id(node_id: str | None, address: str | None) -> int | None:
    if node_id is not None and address is not None:
        raise UsageError("--node-id and --id-from-address say two different things")
    if address is not None:
        return _id_of_address(address)
    try:
        return None if node_id is None else parse_id(node_id)
    except ValueError as error:
        raise UsageError(f"--node-id: {error}") from error


def _id_of_address(address: str) -> int:
    try:
        return address_id(format_address(*parse_address(address)))
    except ValueError as error:
        raise UsageError(f"--id-from-address: {error}") from error
