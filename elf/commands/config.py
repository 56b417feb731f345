"""`elf config check`: what is wrong with an agent's configuration, before an agent is started with it."""

from __future__ import annotations

from pathlib import Path

import click

from agent import ConfigError, load_config, load_identity
from elf.terminal import printable, tell

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
    """Name every fault of FILE, the configuration of an agent, with its line; else say `ok`.

    The certificate, key and authority that it names are looked at as well. Nothing is started or changed. Exit code 0
    when an agent can use it, 2 when not.
    """
    try:
        load_identity(load_config(file))
    except ConfigError as error:
        for line in error.lines:  # as compilers write them, for editors
            tell(printable(line))
        raise click.exceptions.Exit(2) from error
    click.echo("ok")
