"""`elf doctor`: what keeps an agent from working, and the command that mends it."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from elf.errors import UsageError
from elf.options.configuration import read_config
from elf.options.fleet import output_option
from elf.terminal.terminal import printable

CONFIG = Path("/etc/elf/agent.toml")
EXAMPLES = """\b
Examples:
  sudo elf doctor
  elf doctor --config agent.toml --output json | jq 'select(.verdict != "ok")'
"""
_SHOWN = {"ok": "ok   ", "warning": "WARN ", "fault": "FAULT"}


@click.command(epilog=EXAMPLES, short_help="Find what is wrong with this machine's agent, and what mends it.")
@click.option("--config", "file", metavar="FILE", type=click.Path(path_type=Path), default=CONFIG, show_default=True,
              help="The agent's configuration.")  # fmt: skip
@click.option(
    "--user", "name", metavar="USER", help="The user as whom the agent runs; else elf if there is one, or you."
)
@output_option("table", "json")
def doctor(file: Path, name: str | None, output: str) -> None:
    """Check what an agent needs: certificate, rights on files, disks, clock, limits, ports, seeds, packet sizes.

    Nothing is changed. Each fault comes with a command that mends it, or shows more. Exit code 1 if there is a fault.
    """
    config = read_config(file)
    user = _user(name)
    from elf.commands.doctor.diagnosis import Diagnosis
    from elf.commands.doctor.files import check_files
    from elf.commands.doctor.machine import check_machine
    from elf.commands.doctor.network import check_network

    def findings() -> Iterator[Diagnosis]:
        yield from check_files(config, user)
        yield from check_machine()
        yield from check_network(config)

    is_well = True
    for one in findings():
        is_well &= one.verdict != "fault"
        if output == "json":
            click.echo(msgspec.json.encode(one))
            continue
        click.echo(printable(f"{_SHOWN[one.verdict]}  {one.check}: {one.found}"))
        if one.mend:
            click.echo(printable(f"       mend: {one.mend}"))
    sys.exit(0 if is_well else 1)


def _user(name: str | None) -> pwd.struct_passwd:
    if name is not None:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            raise UsageError(f"there is no user {name}") from None
    try:
        return pwd.getpwnam("elf")
    except KeyError:
        return pwd.getpwuid(os.getuid())
