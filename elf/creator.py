"""Who owns jobs: a creator's files where people keep them, opened to sign with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from elf.errors import ElfError, UsageError
from overlay import AuthorityError, CreatorFiles

if TYPE_CHECKING:
    from overlay import Creator

VARIABLE = "ELF_CREATOR"


def creator_directory() -> Path:
    """The folder that ELF_CREATOR names, else ~/.config/elf/creator. UsageError where there is no home either."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    try:
        return Path.home() / ".config" / "elf" / "creator"
    except RuntimeError as error:
        raise UsageError(
            f"there is no home directory to keep a creator's key in: name a folder in {VARIABLE}"
        ) from error


def load_creator(directory: Path | None = None, password: bytes | None = None) -> Creator:
    """The creator in a folder (`creator_directory` if none is named), whose key may need a password.

    ElfError, one line that names the file: a key or certificate is missing, expired, of another or not a creator's, or
    everybody may read the key.
    """
    try:
        return CreatorFiles(directory or creator_directory()).load(password)
    except AuthorityError as error:
        raise ElfError(str(error)) from error
