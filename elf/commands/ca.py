"""`elf ca`: the fleet's certificate authority, which admits agents."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from cryptography import x509
from cryptography.x509.oid import NameOID

from elf.errors import ElfError, UsageError
from overlay import Authority, AuthorityError, format_id, parse_id

EXAMPLES = """\b
Examples:
  elf ca init shop-ca --fleet shop
  elf ca issue shop-ca web-5 --out web-5
  elf ca show web-5/agent.pem
"""
AGENT_DAYS = 365.0
DAYS_MAX = 36_500.0
AUTHORITY = "ca.pem"
CERTIFICATE = "agent.pem"
KEY = "agent.key"
DIRECTORY = click.Path(file_okay=False, path_type=Path)


@click.group(epilog=EXAMPLES, short_help="Make the certificates agents know each other by.")
def ca() -> None:
    """Make the certificates by which the agents of a fleet know each other.

    Who has the authority's key can admit agents: keep the folder that `elf ca init` makes away from the agents, and
    give each only what `elf ca issue` makes for it.
    """


@ca.command(short_help="Make the authority of a new fleet.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--fleet", required=True, help="The fleet's name.")
def init(directory: Path, fleet: str) -> None:
    """Make the authority of a new fleet, in DIR: its certificate and its key."""
    try:
        Authority.create(fleet).save(directory)
    except ValueError as error:
        raise UsageError(f"--fleet: {error}") from error
    except AuthorityError as error:
        raise ElfError(str(error)) from error
    click.echo(f"{directory}: the authority of fleet {fleet}; keep its key where no agent is")


@ca.command(short_help="Admit an agent: make its certificate and key.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.argument("name")
@click.option("--out", metavar="DIR", type=DIRECTORY, required=True, help="Where the agent's three files go.")
@click.option("--days", type=click.FloatRange(0, DAYS_MAX, min_open=True), default=AGENT_DAYS, show_default=True,
              help="How long the certificate is valid.")  # fmt: skip
@click.option("--node-id", metavar="ID", help="The agent's id (32 hexadecimal digits), to renew a certificate.")
def issue(directory: Path, name: str, out: Path, days: float, node_id: str | None) -> None:
    """Admit the agent NAME to the fleet whose authority is in DIR.

    Makes its certificate and key, with the authority's certificate beside them, in the folder --out. The agent gets
    an id of its own; give that of an old certificate (`elf ca show`) to renew it.
    """
    try:
        known = None if node_id is None else parse_id(node_id)
    except ValueError as error:
        raise UsageError(f"--node-id: {error}") from error
    try:
        authority = Authority.load(directory)
        credentials = authority.issue(name, node_id=known, days=days)
        out.mkdir(parents=True, exist_ok=True)
        credentials.save(out / CERTIFICATE, out / KEY)
        (out / AUTHORITY).write_bytes(authority.certificate_pem)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except AuthorityError as error:
        raise ElfError(str(error)) from error
    click.echo(f"{out}: agent {name} of fleet {authority.fleet}, id {format_id(credentials.node_id)}")


@ca.command(short_help="Say whose certificate FILE is.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def show(file: Path) -> None:
    """Say whose certificate FILE is, and how long it is valid."""
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (ValueError, x509.ExtensionNotFound) as error:
        raise ElfError(f"{file}: this is no certificate of an agent or an authority (PEM)") from error
    common = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    click.echo(f"name:        {', '.join(common)}")
    click.echo(f"identity:    {', '.join(uris)}")
    click.echo(f"valid from:  {_moment(certificate.not_valid_before_utc)}")
    click.echo(f"valid until: {_moment(certificate.not_valid_after_utc)}")


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
