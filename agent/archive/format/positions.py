"""Positions up to which a stream's files are archived, so that reading resumes there."""

from __future__ import annotations

import msgspec


class FilePosition(msgspec.Struct, frozen=True):
    """A file up to `offset`. Device, inode and the digest of its first `fingerprint_bytes` tell it from others.

    `reached_ms`: the time of its last event so far, which records without an event are stored under.
    """

    path: str
    device: int
    inode: int
    fingerprint_bytes: int
    fingerprint: str
    offset: int
    file_id: int
    reached_ms: int | None


class StreamPositions(msgspec.Struct, frozen=True):
    """Positions in all followed files of a stream. A higher `sequence` is later.

    `dropped_rows` and `dropped_bytes` count, over all time, lines deleted before they could be archived.
    """

    sequence: int
    files: list[FilePosition]
    dropped_rows: int = 0
    dropped_bytes: int = 0
