"""Positions up to which a stream's files are archived, so that reading resumes there."""

from __future__ import annotations

import msgspec


class FilePosition(msgspec.Struct, frozen=True):
    """A file up to `offset`. Device, inode and the digest of its first `fingerprint_bytes` tell it from others.

    `reached_ms`: the time of its last event so far, which records that are no event are filed under.
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
    """All files of a stream that are followed. Of two, the one with the higher `sequence` is the later.

    `dropped_rows`, `dropped_bytes`: what was deleted before it could be archived, ever.
    """

    sequence: int
    files: list[FilePosition]
    dropped_rows: int = 0
    dropped_bytes: int = 0
