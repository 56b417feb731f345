"""Shared parts of the commands of an authority: arguments, passwords, and error messages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from elf.errors import ElfError, UsageError
from overlay import Authority, AuthorityDirectory, AuthorityError, SecretFileError, read_password

PASSWORD_CHARACTERS_MIN = 8
DAYS_MAX = 36_500.0
AGENT_DAYS = 365.0
DIRECTORY = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)

directory_argument = click.argument("directory", metavar="CA_DIR", type=DIRECTORY)
password_option = click.option(
    "--password-file", metavar="FILE", type=FILE,
    help="A file whose first line is the password of the authority's key; else it is asked for.",
)  # fmt: skip
key_password_option = click.option(
    "--key-password-file", metavar="FILE", type=FILE,
    help="Encrypt the agent's key with the first line of this file (identity.key_password_file in agent.toml).",
)  # fmt: skip
days_option = click.option(
    "--days", type=click.FloatRange(0, DAYS_MAX, min_open=True), default=AGENT_DAYS, show_default=True,
    help="How long the certificate is valid.",
)  # fmt: skip


@contextmanager
def authority_errors() -> Iterator[None]:
    """Turns errors of an authority into one line and an exit code."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error
    except AuthorityError as error:
        raise ElfError(str(error)) from error


def password_in(file: Path) -> bytes:
    """The password in a file."""
    try:
        return read_password(file)
    except SecretFileError as error:
        raise ElfError(f"{file}: {error}") from error


def new_password(file: Path | None) -> bytes:
    """The password for a new key."""
    if file is not None:
        password = password_in(file)
    else:
        _need_terminal("give --password-file FILE, or --no-password")
        password = str(
            click.prompt("Password for the authority's key", hide_input=True, confirmation_prompt=True, err=True)
        ).encode()
    if len(password) < PASSWORD_CHARACTERS_MIN:
        raise UsageError(f"the password is too short: it needs {PASSWORD_CHARACTERS_MIN} characters")
    return password


def unlocked(directory: AuthorityDirectory, file: Path | None) -> Authority:
    """An authority with its key."""
    if not directory.needs_password:
        return directory.unlock(None)
    if file is None:
        _need_terminal("give --password-file FILE")
        return directory.unlock(
            str(click.prompt(f"Password for {directory.path / 'ca.key'}", hide_input=True, err=True)).encode()
        )
    return directory.unlock(password_in(file))


def _need_terminal(instead: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"there is no terminal to ask for the password of the authority's key: {instead}")
