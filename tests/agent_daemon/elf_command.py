"""`elf` as somebody types it in a folder: what it prints and how it ends."""

from __future__ import annotations

from pathlib import Path

import elf_process


def elf(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; nobody is at a terminal."""
    finished = elf_process.elf(*arguments, folder=folder)
    assert "Traceback" not in finished.err
    return finished.code, finished.out, finished.err


def secret(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return path.name
