"""`elf` run as a person runs it: a process with arguments, input, output and an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


class Finished:
    """A finished `elf` process: its exit code, what it printed, and its result lines."""

    def __init__(self, process: subprocess.CompletedProcess[bytes]) -> None:
        self.code = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()

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


def elf(*arguments: str, stdin: bytes = b"") -> Finished:
    command = [sys.executable, "-m", "elf", *arguments]
    return Finished(subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False))


def local(query: str, *arguments: str, stdin: bytes = b"") -> Finished:
    return elf("local", "--output", "json", query, *arguments, stdin=stdin)
