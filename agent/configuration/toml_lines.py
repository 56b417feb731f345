"""Finds the line of each key in a TOML text, which `tomllib` does not report.

The text has been read by `tomllib`, so it is valid, and this scan only follows it. Its keys are compared with those of
`tomllib`: if they differ in a single one, no lines are returned rather than wrong ones.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

KeyPath = tuple[str | int, ...]
"""Keys and, in arrays, positions from the top of the document to a value."""

_GAP = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}\n#]+")


def key_lines(text: str, document: dict[str, Any]) -> dict[KeyPath, int]:
    """The lines, from 1, of all tables, keys and array elements of a text that `tomllib` has read as `document`.

    Of a table, the line of its header, or else of the first key in it. Empty when the scan cannot follow the text.

    >>> text = '[[streams]]\\nname = "web"\\npaths = [\\n "a.log",\\n]'
    >>> key_lines(text, tomllib.loads(text))[("streams", 0, "paths", 0)]
    4
    """
    scan = _Scan(text.replace("\r\n", "\n"))
    try:
        scan.document()
    except (_LostError, RecursionError, ValueError):
        return {}
    return scan.lines if set(scan.lines) == paths_of(document) else {}


class _LostError(Exception):
    """The scan does not understand the text."""


class _Scan:
    """Scans the text once; `lines` collects the keys."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._tables_in: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self._take(_BLANK)
        while self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._take(_BLANK)

    def _header(self) -> KeyPath:
        brackets = "[[" if self._text.startswith("[[", self._at) else "["
        line = self._line
        self._expect(brackets)
        *parents, last = self._keys()
        self._expect(brackets.replace("[", "]"))
        path: KeyPath = ()
        for key in parents:
            path = self._entered((*path, key), line)
        path = (*path, last)
        if brackets == "[[":
            self.lines.setdefault(path, line)
            self._tables_in[path] = self._tables_in.get(path, 0) + 1
            path = (*path, self._tables_in[path] - 1)
        self.lines[path] = line
        return path

    def _entered(self, path: KeyPath, line: int) -> KeyPath:
        """The table at a path of keys: in an array of tables it is the last one."""
        self.lines.setdefault(path, line)
        return (*path, self._tables_in[path] - 1) if path in self._tables_in else path

    def _pair(self, table: KeyPath) -> None:
        line = self._line
        path = table
        for key in self._keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._expect("=")
        self._take(_GAP)
        self._value(path)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._take(_GAP)
            keys.append(_spelled(self._take(_KEY)))
            self._take(_GAP)
            if not self._text.startswith(".", self._at):
                return keys
            self._expect(".")

    def _value(self, path: KeyPath) -> None:
        match self._text[self._at : self._at + 1]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._take(_STRING)
            case _:
                self._take(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._expect("[")
        self._take(_BLANK)
        position = 0
        while not self._text.startswith("]", self._at):
            self.lines[(*path, position)] = self._line
            self._value((*path, position))
            position += 1
            self._take(_BLANK)
            if not self._text.startswith("]", self._at):
                self._expect(",")
                self._take(_BLANK)
        self._expect("]")

    def _inline_table(self, path: KeyPath) -> None:
        self._expect("{")
        self._take(_BLANK)
        while not self._text.startswith("}", self._at):
            self._pair(path)
            self._take(_BLANK)
            if not self._text.startswith("}", self._at):
                self._expect(",")
                self._take(_BLANK)
        self._expect("}")

    def _expect(self, token: str) -> None:
        if not self._text.startswith(token, self._at):
            raise _LostError
        self._at += len(token)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _LostError
        self._at = match.end()
        self._line += match.group().count("\n")
        return match.group()


def _spelled(key: str) -> str:
    """The name a key stands for: escapes in quotes are read by `tomllib`."""
    if key[0] not in "\"'":
        return key
    return str(tomllib.loads(f"key = {key}")["key"])


def paths_of(value: object, path: KeyPath = ()) -> set[KeyPath]:
    """The paths of all keys and elements of a document."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    paths = {(*path, key) for key, _ in items}
    return paths.union(*(paths_of(inner, (*path, key)) for key, inner in items))
