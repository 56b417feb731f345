"""Scripts: statements that run one after the other, from the command line or a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.control.messages import REQUEST_BYTES_MAX
from elf.errors import UsageError
from elf.output.view import View, ViewLimits
from elf.statements.statements import statements

if TYPE_CHECKING:
    from elf.statements.backend import Backend

STANDARD_INPUT = "-"
SCRIPT_BYTES_MAX = REQUEST_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Script:
    """At least one statement; `origin` names the file they come from, "" if there is none."""

    statements: list[str]
    origin: str = ""

    def run(self, backend: Backend, view: View, limits: ViewLimits) -> int:
        """Runs the statements until one fails or is cut short; returns its exit code, else 0. Raises ElfError."""
        from elf.statements.backend import run_statement  # loading what prints lists takes time

        for text in self.statements:
            with self.blamed():
                code = run_statement(text, backend, view, limits)
            if code:
                return code
        return 0

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Adds the file's name to errors in a statement."""
        try:
            yield
        except UsageError as error:
            if not self.origin:
                raise
            raise UsageError(f"{self.origin}: {error}") from None


def script_of(text: str) -> Script:
    """The statements of a text. An empty text is one statement, so that the parser explains the error."""
    return Script(statements(text) or [text])


def script_file(name: str) -> Script:
    """The statements in a file, `-` for standard input. Raises UsageError for a file without statements."""
    origin = "standard input" if name == STANDARD_INPUT else name
    data = _read(name)
    if len(data) > SCRIPT_BYTES_MAX:
        raise UsageError(f"{origin}: too long for a file of statements: at most {SCRIPT_BYTES_MAX:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{origin}: this is no text: byte {error.start + 1:,} is not UTF-8") from None
    found = statements(text)
    if not found:
        raise UsageError(f"{origin}: there is no statement in it")
    return Script(found, origin)


def _read(name: str) -> bytes:
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read(SCRIPT_BYTES_MAX + 1) if sys.stdin else b""
    try:
        with Path(name).open("rb") as file:
            return file.read(SCRIPT_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"-f {name}: {(error.strerror or str(error)).lower()}") from None
