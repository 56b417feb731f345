"""Prepares standard output and error, and escapes text from logs that is shown there."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TextIO

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""The text with control characters and direction marks spelled out.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    return _UNSAFE.sub(lambda match: _spelled(match.group()), text)


def printable_json(text: str) -> str:
    r"""JSON text with the same meaning, with such characters escaped as in JSON.

    >>> print(printable_json('"ab"'))
    "a\u009bb"
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def prepare_streams() -> None:
    """Makes both streams take any text, as UTF-8. If one was closed, output fails and messages are dropped."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def can_be_drawn_over(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose cursor can go back over its lines."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def tell(text: str, end: str = "\n") -> None:
    """Writes lines for people to standard error; a closed standard error is no reason to stop."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
