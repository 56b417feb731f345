"""Merges segments and cuts them anew: fewer and larger ones, sorted, each row once. Safe against crashes at any
point.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath

from agent.archive.format.segments import SEGMENTS_DIRECTORY, SUFFIX, Segment
from agent.archive.writer.upkeep import ORPHAN_KEPT_MS, REMOVED_KEPT_MS
from elf.batch.table.overlaps import sharing_rows
from elf.batch.table.stores import ArchiveStore, StoredSegment, commit
from elf.batch.table.table import ArchiveTable
from elf.batch.table.writing import UNFINISHED, write
from elf.errors import ElfError

SEGMENT_BYTES = 192 << 20
"""Approximate size of a new segment."""
SMALL_BYTES = 32 << 20
"""Size below which a minor compaction merges a segment with its neighbours."""


@dataclass(slots=True)
class Compacted:
    """Result of a compaction: the segments it replaced, those it wrote, and the number of files deleted."""

    removed: list[Segment] = field(default_factory=list)
    added: list[Segment] = field(default_factory=list)
    deleted: int = 0


def compact(table: ArchiveTable, *, major: bool = False) -> Compacted:
    """Compacts a table. Minor: small neighbouring segments of a stream become one. Major: all segments of a stream
    become sorted ranges of keys, and duplicate rows are dropped. Every step is one commit.

    Then deletes files that are no longer needed. Raises ElfError for torn segments, which are left as they are.
    """
    done = Compacted()
    for store in table.stores:
        for stream in sorted({one.stream for one in store.state.segments.values()}):
            segments = _of_stream(store, stream)
            for group, regions in _major(segments) if major else _minor(segments):
                _rewrite(table, store, group, regions, done)
        done.deleted += sweep(store)
    return done


def split(table: ArchiveTable, regions: int) -> Compacted:
    """Cuts each stream of each store at new keys, into `regions` ranges with about equally many rows."""
    done = Compacted()
    for store in table.stores:
        for stream in sorted({one.stream for one in store.state.segments.values()}):
            _rewrite(table, store, _of_stream(store, stream), regions, done)
    return done


def sweep(store: ArchiveStore) -> int:
    """Deletes the files of segments that were removed a while ago, and files left by crashes; returns their number."""
    now_ms = _now_ms()
    state = store.reread().state
    deleted = 0
    for found in store.directory.list(SEGMENTS_DIRECTORY):
        name = PurePosixPath(found.name).stem
        if name in state.segments or not (found.name.endswith(SUFFIX) or found.name.startswith(UNFINISHED)):
            continue
        if name in state.removed:
            is_due = state.removed[name] < now_ms - REMOVED_KEPT_MS
        else:
            is_due = found.modified_ms < now_ms - ORPHAN_KEPT_MS
        if is_due:
            store.directory.delete(f"{SEGMENTS_DIRECTORY}/{found.name}")
            deleted += 1
    return deleted


def _of_stream(store: ArchiveStore, stream: str) -> list[StoredSegment]:
    found = [StoredSegment(store, one) for one in store.state.segments.values() if one.stream == stream]
    return sorted(found, key=lambda one: (one.segment.first_key, one.segment.name))


def _minor(segments: Sequence[StoredSegment]) -> Iterator[tuple[list[StoredSegment], int]]:
    """Yields runs of small segments that make one of a good size."""
    group: list[StoredSegment] = []
    for one in segments:
        size = sum(other.segment.bytes for other in group)
        if group and (one.segment.bytes >= SMALL_BYTES or size + one.segment.bytes > SEGMENT_BYTES):
            yield from [(group, 1)] if len(group) > 1 else []
            group = []
        if one.segment.bytes < SMALL_BYTES:
            group.append(one)
    yield from [(group, 1)] if len(group) > 1 else []


def _major(segments: Sequence[StoredSegment]) -> Iterator[tuple[list[StoredSegment], int]]:
    """All segments of a stream, unless they are sorted already and nearly as large as they can be."""
    regions = -(-sum(one.segment.bytes for one in segments) // SEGMENT_BYTES)
    in_order = all(one.segment.last_key < other.segment.first_key for one, other in pairwise(segments))
    if len(segments) > max(1, 2 * regions) or not in_order or sharing_rows(segments):
        yield list(segments), regions


def _rewrite(
    table: ArchiveTable, store: ArchiveStore, group: Sequence[StoredSegment], regions: int, done: Compacted
) -> None:
    """Writes the rows of a group of segments as new ones, and commits the replacement."""
    before = [one.segment for one in group]
    after = write(table, store, group, regions)
    if fault := _fault(store, group, after):
        for one in after:
            store.directory.delete(one.file)
        raise ElfError(f"{store.directory.uri}: {fault}, so nothing was committed; try again")
    commit(store, _now_ms(), add=after, remove=[one.name for one in before])
    done.removed += before
    done.added += after


def _fault(store: ArchiveStore, group: Sequence[StoredSegment], after: Sequence[Segment]) -> str | None:
    """Reason why new segments must not replace a group, None if they may."""
    before = [one.segment for one in group]
    if sum(one.rows for one in after) != sum(one.rows for one in before) and not sharing_rows(group):
        return "rows were lost on the way"
    if {one.name for one in before} - store.reread().state.segments.keys():
        return "somebody else has changed it meanwhile"
    return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
