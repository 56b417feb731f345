"""Reads an agent's configuration for a command; reports every fault and ends with exit code 2."""

from __future__ import annotations

from pathlib import Path

import click

from agent import Config, ConfigError, check_revocations, load_config, load_identity
from elf.errors import UsageError
from elf.terminal.terminal import printable, tell
from overlay import Identity

FAULTY = 2


def read_config(file: Path) -> Config:
    """The configuration. Reports its faults, a line each as compilers do, and ends with exit code 2."""
    try:
        return load_config(file)
    except ConfigError as error:
        for line in error.lines:
            tell(printable(line))
        raise click.exceptions.Exit(FAULTY) from error


def read_identity(config: Config) -> Identity:
    """The identity that a configuration names. Raises UsageError, one line."""
    try:
        identity = load_identity(config)
        check_revocations(config, identity)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return identity
