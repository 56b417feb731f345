"""The options of commands that sign."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from overlay import Creator

Command = TypeVar("Command", bound=Callable[..., Any])

creator_option = click.option(
    "--creator", "creator_folder", metavar="DIR", type=click.Path(path_type=Path),
    help="The folder with your key and certificate; else that of ELF_CREATOR, else ~/.config/elf/creator.",
)  # fmt: skip


def creator_in(folder: Path | None) -> Creator:
    """Whoever signs. Raises ElfError."""
    from elf.creator import load_creator  # it needs the library of certificates, which asking does not

    return load_creator(folder)
