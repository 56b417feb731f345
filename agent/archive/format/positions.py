"""Positions up to which a stream's files are archived, so that reading resumes there."""

from __future__ import annotations

import os
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

_QUOTED = "%:"
"""Begins a stored path whose bytes are not UTF-8, which JSON and Parquet could not hold."""


def stored_path(path: str) -> str:
    """The path as archives name it; `file_path` gives it back.

    >>> stored_path("/var/log/access.log"), stored_path(os.fsdecode(b"/var/log/caf\\xe9.log"))
    ('/var/log/access.log', '%:/var/log/caf%E9.log')
    """
    data = os.fsencode(path)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = _QUOTED
    return _QUOTED + quote_from_bytes(data) if text.startswith(_QUOTED) else text


def file_path(stored: str) -> str:
    """The path of a file that archives name so.

    >>> all(file_path(stored_path(os.fsdecode(path))) == os.fsdecode(path) for path in (b"a", b"%:a%20", b"\\xff"))
    True
    """
    return os.fsdecode(unquote_to_bytes(stored[len(_QUOTED) :])) if stored.startswith(_QUOTED) else stored


class FilePosition(msgspec.Struct, frozen=True):
    """A file up to `offset`, under its `stored_path`.

    Device, inode and the digest of its first `fingerprint_bytes` tell it from others. `reached_ms`: the time of its
    last event so far, which records without an event are stored under. `modified_ns`: the time of the file's last
    change by then.
    """

    path: str
    device: int
    inode: int
    fingerprint_bytes: int
    fingerprint: str
    offset: int
    file_id: int
    reached_ms: int | None
    modified_ns: int = 0


class StreamPositions(msgspec.Struct, frozen=True):
    """Positions in all followed files of a stream. A higher `sequence` is later.

    `dropped_rows` and `dropped_bytes` count, over all time, lines deleted before they could be archived.
    """

    sequence: int
    files: list[FilePosition]
    dropped_rows: int = 0
    dropped_bytes: int = 0
