"""Status of an archive, which its process reports to the agent once a second as a line of JSON."""

from __future__ import annotations

import msgspec


class StreamArchiveStatus(msgspec.Struct, frozen=True):
    """One stream in the archive. `lag_bytes`: what its files hold and the archive does not yet.

    `dropped_rows`, `dropped_bytes`: what was deleted before it could be archived. `fault`: what went wrong last, ""
    where nothing did.
    """

    name: str
    rows: int
    segments: int
    bytes: int
    lag_bytes: int
    dropped_rows: int
    dropped_bytes: int
    fault: str


class ArchiveStatus(msgspec.Struct, frozen=True):
    """An archive. `fault`: why nothing is archived now, "" while something is."""

    directory: str
    disk_free_bytes: int
    fault: str
    streams: list[StreamArchiveStatus]
