"""`elf ca show`: certificates, authorities, lists of revoked certificates, and what an authority has issued."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from elf.commands.ca.described import (
    AuthorityFolder,
    Certificate,
    Described,
    DescribedRevocationList,
    RevokedCertificate,
    described_directory,
    described_file,
)
from elf.commands.ca.options import authority_errors
from elf.options.fleet import output_option
from elf.terminal.terminal import printable
from overlay import AuthorityDirectory

if TYPE_CHECKING:
    from rich.table import Table

FILE_BYTES_MAX = 16 << 20
EXAMPLES = """\b
Examples:
  elf ca show web-5/agent.pem
  elf ca show shop-ca
  elf ca show shop-ca --output json | jq '.issued[] | select(.state == "valid")'
"""


@click.command(epilog=EXAMPLES, short_help="Show certificates, lists of revoked ones, and authorities.")
@click.argument("target", metavar="FILE|CA_DIR", type=click.Path(path_type=Path))
@output_option("table", "json")
def show(target: Path, output: str) -> None:
    """Show the certificates or the list of revoked ones in FILE, or all that the authority in CA_DIR has issued and
    revoked. No password is needed.
    """
    with authority_errors():
        things = [described_directory(AuthorityDirectory(target))] if target.is_dir() else _in_file(target)
    for number, thing in enumerate(things):
        if output == "json":
            click.echo(msgspec.json.encode(thing))
            continue
        if number:
            click.echo()
        _print(thing)


def _in_file(path: Path) -> Sequence[Described]:
    with path.open("rb") as file:
        return described_file(path, file.read(FILE_BYTES_MAX))


def _print(thing: Described) -> None:
    for key, value in _lines(thing):
        click.echo(f"{key + ':':12} {printable(value)}")
    tables = list(_tables(thing))
    if tables:
        from elf.terminal.console import open_console

        console = open_console(sys.stdout)
        for table in tables:
            console.print(table)


def _lines(thing: Described) -> Iterator[tuple[str, str]]:
    match thing:
        case Certificate():
            yield "name", thing.name
            yield "identity", thing.identity
            yield "authority" if thing.authority else "serial", thing.fingerprint if thing.authority else thing.serial
            yield "valid from", moment(thing.not_before)
            yield "valid until", moment(thing.expires)
        case DescribedRevocationList():
            yield "issuer", thing.issuer
            yield "number", str(thing.number)
            yield "made", moment(thing.made)
        case AuthorityFolder():
            yield "fleet", thing.fleet
            yield "authority", thing.fingerprint
            yield "valid until", moment(thing.expires)
            yield "key", "encrypted" if thing.encrypted else "not protected by a password"
            yield "list number", str(thing.list_number)


def _tables(thing: Described) -> Iterator[Table]:
    from elf.output.listing import plain_table

    if isinstance(thing, AuthorityFolder) and thing.issued:
        rows = [(one.name, one.role, one.node_id, one.serial, moment(one.expires), one.state) for one in thing.issued]
        yield plain_table(["NAME", "ROLE", "ID", "SERIAL", "VALID UNTIL", "STATE"], rows)
    if not isinstance(thing, Certificate) and thing.revoked:
        yield plain_table(["REVOKED", "NAME", "SINCE", "REASON"], [_row(one) for one in thing.revoked])


def _row(one: RevokedCertificate) -> Sequence[str | None]:
    return one.serial, one.name, moment(one.since), one.reason


def moment(when: datetime) -> str:
    """A time as tables show it."""
    return f"{when:%Y-%m-%d %H:%M} UTC"
