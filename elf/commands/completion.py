"""`elf completion`: scripts by which a shell completes `elf`'s commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from elf.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ELF_COMPLETE"
EXAMPLES = """\b
Examples:
  eval "$(elf completion bash)"                                          in ~/.bashrc, with bash 4.4 or newer
  eval "$(elf completion zsh)"                                           in ~/.zshrc, after compinit
  elf completion fish > ~/.config/fish/completions/elf.fish
"""


@click.command(epilog=EXAMPLES, short_help="Print a completion script for your shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets bash, zsh or fish complete commands, options and names of jobs with Tab."""
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, "elf", VARIABLE).source())
