"""`elf config`: the configuration of an agent, checked, shown and explained, without an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from agent import described_keys, effective_values, key_table, shown_value
from elf.errors import UsageError
from elf.options.configuration import FAULTY, read_config, read_identity
from elf.options.fleet import output_option
from elf.terminal.terminal import printable, tell

EXAMPLES = """\b
Examples:
  elf config check agent.toml
  elf config show --effective agent.toml
  elf config schema
"""


@click.group(epilog=EXAMPLES, short_help="Check, show and explain an agent's configuration.")
def config() -> None:
    """Look at an agent's configuration: FILE, the files in `conf.d` beside it, and variables ELF_AGENT_...."""


@config.command(short_help="Name every fault of FILE, with its line.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Name every fault of FILE, the configuration of an agent, with its line; print `ok` if there is none.

    The files of `conf.d` beside it and variables of the environment count as they do for an agent. The certificate, key
    and authority that it names are checked as well. Nothing is started or changed. The exit code is 0 when an agent can
    use FILE, and 2 when it cannot.
    """
    found = read_config(file)
    try:
        read_identity(found)
    except UsageError as error:
        tell(printable(str(error)))
        raise click.exceptions.Exit(FAULTY) from error
    click.echo("ok")


@config.command(short_help="Show what FILE sets, and where.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--effective", is_flag=True, help="Show the defaults of all other keys as well.")
@output_option("table", "json")
def show(file: Path, effective: bool, output: str) -> None:
    """Show each value of FILE with the place it comes from: a file and line, a variable, or the default.

    Secrets are not part of a configuration: it names the files that hold them, which are not read here.
    """
    values = effective_values(read_config(file).layers, defaults=effective)
    if output == "json":
        for one in values:
            click.echo(msgspec.json.encode({"key": one.key, "value": one.value, "from": one.origin}))
        return
    lines = [(f"{one.key} = {shown_value(one.value)}", one.origin) for one in values if one.value is not None]
    unset = [(f"# {one.key} is not set", one.origin) for one in values if one.value is None]
    _print_beside(lines + unset)


def _print_beside(lines: Sequence[tuple[str, str]]) -> None:
    """Prints values with their origins in a column of their own."""
    width = min(60, max((len(left) for left, _ in lines), default=0))
    for left, origin in lines:
        click.echo(printable(f"{left:<{width}}  # {origin}"))


@config.command(short_help="List every key with its type, default and meaning.")
@output_option("table", "json", "markdown")
def schema(output: str) -> None:
    """List every key of an agent's configuration: type, default, meaning, the variable that overrides it, and whether
    `elf reload` puts a new value in force.
    """
    if output == "markdown":
        click.echo(key_table(), nl=False)
        return
    section = ""
    for key in described_keys():
        if output == "json":
            click.echo(msgspec.json.encode(key))
            continue
        if key.section != section:
            section = key.section
            click.echo(f"\n{section}")
        default = "required" if key.default is None else f"default {key.default}"
        live = "" if key.is_live else "; needs a restart"
        click.echo(f"{key.path.rpartition('.')[2]}  ({key.type}, {default}{live})")
        click.echo(f"    {key.meaning.replace('`', '')}" + (f" [{key.variable}]" if key.variable else ""))
