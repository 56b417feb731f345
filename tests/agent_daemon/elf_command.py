"""`elf` as somebody types it, in this process: what it prints and how it ends."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from unittest import mock

from elf.cli import main


def elf(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; nobody is at a terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO()) for _ in range(2))
    with (
        contextlib.chdir(folder),
        mock.patch.object(sys, "argv", ["elf", *arguments]),
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out.flush(), err.flush()
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()  # type: ignore[attr-defined]


def secret(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return path.name
