"""Making text from logs safe to show: no byte of an event reaches a terminal as a control sequence."""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""The text with control characters and direction marks spelled out.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    return _UNSAFE.sub(lambda match: _spelled(match.group()), text)


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
