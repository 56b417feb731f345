"""The parser of ELF QL's grammar, kept beside the bytecode because building it takes longer than most queries do."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from contextlib import suppress
from functools import cache
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path

import lark

_OPTIONS = {"parser": "lalr", "lexer": "contextual", "start": "start", "propagate_positions": True}


@cache
def grammar_text() -> str:
    return files("query.syntax").joinpath("grammar.lark").read_text(encoding="utf-8")


@cache
def grammar() -> lark.Lark:
    """The parser of `grammar_text`.

    It is read from a file beside this module's bytecode, as trusted as that, or built and written there, if bytecode
    is. A file of another grammar or another version of lark, or one that is damaged, is replaced.
    """
    file = _file()
    if file is None:
        return _built()
    with suppress(OSError):
        digest, _, saved = file.read_bytes().partition(b"\n")
        if digest == _digest(saved):
            return lark.Lark.load(io.BytesIO(saved))
    parser = _built()
    if not sys.dont_write_bytecode:
        buffer = io.BytesIO()
        parser.save(buffer)
        _write(file, buffer.getvalue())
    return parser


def _built() -> lark.Lark:
    return lark.Lark(grammar_text(), **_OPTIONS)


def _file() -> Path | None:
    """The kept parser; None where this Python keeps no bytecode."""
    try:
        return Path(cache_from_source(__file__)).with_suffix(".lark")
    except NotImplementedError:
        return None


def _digest(saved: bytes) -> bytes:
    """A hash of all that a saved parser depends on, and of its own bytes."""
    origin = f"{lark.__version__} {sys.version_info[:2]} {_OPTIONS} {grammar_text()}"
    return hashlib.sha256(origin.encode() + saved).hexdigest().encode()


def _write(file: Path, saved: bytes) -> None:
    """Replaces the file as a whole, since others may read or write it now; leaves it where it may not be written."""
    beside = file.with_suffix(f".lark-{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(_digest(saved) + b"\n" + saved)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
