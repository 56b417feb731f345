"""`elf creator init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from elf.client.remote_agent import creator_directory
from elf.commands.ca.options import DIRECTORY, FILE, authority_errors, new_password
from elf.terminal.terminal import printable
from overlay import CreatorFiles

EXAMPLES = """\b
Examples:
  elf creator init maria
  elf creator init maria --directory nightly --password-file nightly.password
"""


@click.command(epilog=EXAMPLES, short_help="Make your key, which will own your jobs.")
@click.argument("name", required=False)
@click.option(
    "--directory", metavar="DIR", type=DIRECTORY,
    help="Where the key goes; else the folder of ELF_CREATOR, else ~/.config/elf/creator.",
)  # fmt: skip
@click.option("--password-file", metavar="FILE", type=FILE, help="Encrypt the key with the first line of this file.")
def init(name: str | None, directory: Path | None, password_file: Path | None) -> None:
    """Make a creator's key, creator.key, and its public half, creator.pub, which carries NAME for people to read.

    Keep the key: whoever has it can change and stop the jobs it owns. Give creator.pub to the holder of the fleet's
    authority. Existing files are not overwritten.
    """
    with authority_errors():
        files = CreatorFiles(directory or creator_directory())
        files.create(name, None if password_file is None else new_password(password_file))
    trust = shlex.join(["elf", "creator", "trust", files.public_file.name, "--name", name or "NAME", "--ca", "CA_DIR"])
    click.echo(f"{files.key_file}: a creator's key; keep it to yourself")
    click.echo(f"next: give {files.public_file} to who holds the fleet's authority, for: {printable(trust)}")
