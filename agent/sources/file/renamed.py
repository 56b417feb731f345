"""Files that were read once and have other names by now, as rotated logs do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from agent.sources.file.finding import NAMES_MAX, FoundFile
from agent.sources.file.followed_file import ReadUpTo


def renamed_files(known: Sequence[ReadUpTo]) -> list[FoundFile]:
    """Finds the known files that are still in their folders under other names."""
    found = []
    for folder in {str(Path(one.path).parent) for one in known}:
        wanted = {one.identity for one in known if str(Path(one.path).parent) == folder}
        found += [file for file in _files(folder, {inode for _, inode in wanted}) if file.identity in wanted]
    return found


def _files(folder: str, inodes: set[int]) -> list[FoundFile]:
    found: list[FoundFile] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, NAMES_MAX):
            with suppress(OSError):  # it has just vanished
                if entry.inode() in inodes and entry.is_file(follow_symlinks=False):
                    found.append(FoundFile(entry.path, entry.stat(follow_symlinks=False)))
    return found
