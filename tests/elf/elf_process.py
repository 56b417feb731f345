"""`elf` as a person runs it, with arguments, input, output and an exit code: in this process, or in one of its own.

Starting Python and loading ELF takes a second, so a process of its own is for what only a process can show.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from elf.cli import main

PROCESS_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished `elf`: its exit code, what it printed, and its result lines."""

    code: int
    out: str
    err: str

    @property
    def results(self) -> list[dict[str, Any]]:
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for result in self.results for row in result["rows"]]

    def refuses(self, code: int, *words: str) -> None:
        """Asserts that a command ended with this code, printed nothing, and complained once, in these words."""
        assert (self.code, self.out) == (code, ""), self.err
        assert self.err.startswith("elf")
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err


def elf(*arguments: str, stdin: bytes = b"", folder: Path | None = None) -> Finished:
    """The command line's own entry, called here: streams are pipes, and nobody is at a terminal."""
    out, err = io.BytesIO(), io.BytesIO()
    with (
        contextlib.chdir(folder or Path.cwd()),
        mock.patch.object(sys, "argv", ["elf", *arguments]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        contextlib.redirect_stdout(io.TextIOWrapper(out)) as out_text,
        contextlib.redirect_stderr(io.TextIOWrapper(err)) as err_text,
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out_text.flush()
        err_text.flush()
        return Finished(code, out.getvalue().decode(), err.getvalue().decode())


def elf_process(*arguments: str, stdin: bytes = b"", **environment: str) -> Finished:
    """The same in a process of its own, with these variables in its environment."""
    command = [sys.executable, "-m", "elf", *arguments]
    finished = subprocess.run(
        command, input=stdin, env=os.environ | environment, capture_output=True, timeout=PROCESS_TIMEOUT_S, check=False
    )
    return Finished(finished.returncode, finished.stdout.decode(), finished.stderr.decode())


def local(query: str, *arguments: str, stdin: bytes = b"") -> Finished:
    return elf("local", "--output", "json", query, *arguments, stdin=stdin)
