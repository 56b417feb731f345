"""`elf config check`: the faults of an agent's configuration, before an agent is started with it."""

from __future__ import annotations

from pathlib import Path

import click

from elf.errors import ElfError
from elf.options.configuration import FAULTY, read_config, read_identity
from elf.terminal.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf config check agent.toml
"""


@click.group(short_help="Check an agent's configuration.")
def config() -> None:
    """Look at an agent's configuration."""


@config.command(epilog=EXAMPLES, short_help="Name every fault of FILE, with its line.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Name every fault of FILE, the configuration of an agent, with its line; print `ok` if there is none.

    The certificate, key and authority that it names are checked as well. Nothing is started or changed. The exit code
    is 0 when an agent can use FILE, and 2 when it cannot.
    """
    found = read_config(file)
    try:
        read_identity(found)
    except ElfError as error:
        tell(printable(str(error)))
        raise click.exceptions.Exit(FAULTY) from error
    click.echo("ok")
