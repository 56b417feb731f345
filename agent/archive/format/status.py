"""Status of an archive, which its process reports to the agent once a second as a line of JSON."""

from __future__ import annotations

import msgspec


class StreamArchiveStatus(msgspec.Struct, frozen=True):
    """One stream in the archive. `lag_bytes` is the size of lines not archived yet.

    `dropped_rows` and `dropped_bytes` count lines deleted before they were archived, `gaps` the losses since the
    archiver's start whose number of lines is not known. `fault` is the last one, or "".
    """

    name: str
    rows: int
    segments: int
    bytes: int
    lag_bytes: int
    dropped_rows: int
    dropped_bytes: int
    gaps: int
    fault: str


class ArchiveStatus(msgspec.Struct, frozen=True):
    """An archive. `fault`: why nothing is archived now, "" while something is."""

    directory: str
    disk_free_bytes: int
    fault: str
    streams: list[StreamArchiveStatus]
