"""Segments put together and cut anew: fewer and larger ones, sorted, each row once, whatever dies meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath

from agent.archive.format.segments import SEGMENTS_DIRECTORY, SUFFIX, Segment
from agent.archive.writer.upkeep import ORPHAN_KEPT_MS, REMOVED_KEPT_MS
from elf.batch.table.overlaps import doubled
from elf.batch.table.stores import ArchiveStore, StoredSegment, commit
from elf.batch.table.table import ArchiveTable
from elf.batch.table.writing import UNFINISHED, write
from elf.errors import ElfError

SEGMENT_BYTES = 192 << 20
"""About how large segments become."""
SMALL_BYTES = 32 << 20
"""Smaller ones are put together with their neighbours by a minor compaction."""


@dataclass(slots=True)
class Compacted:
    """What a compaction has done: segments before and after, of those it has touched, and files deleted."""

    removed: list[Segment] = field(default_factory=list)
    added: list[Segment] = field(default_factory=list)
    deleted: int = 0


def compact(table: ArchiveTable, *, major: bool = False) -> Compacted:
    """Minor: small segments of a stream that follow each other become one. Major: all segments of a stream become
    sorted ranges of keys, and rows that are there twice are there once. Every step is one commit.

    Then deletes files that nobody needs. Raises ElfError for torn segments, which are left as they are.
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
    """Cuts each stream of each store at new keys, into so many ranges of about as many rows."""
    done = Compacted()
    for store in table.stores:
        for stream in sorted({one.stream for one in store.state.segments.values()}):
            _rewrite(table, store, _of_stream(store, stream), regions, done)
    return done


def sweep(store: ArchiveStore) -> int:
    """Deletes the files of segments that were removed a while ago, and what crashes have left; how many."""
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
    """Runs of small segments that make one of a good size."""
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
    """All of them, unless they are in order already, and not much smaller than they could be."""
    regions = -(-sum(one.segment.bytes for one in segments) // SEGMENT_BYTES)
    in_order = all(one.segment.last_key < other.segment.first_key for one, other in pairwise(segments))
    if len(segments) > max(1, 2 * regions) or not in_order or doubled(segments):
        yield list(segments), regions


def _rewrite(
    table: ArchiveTable, store: ArchiveStore, group: Sequence[StoredSegment], regions: int, done: Compacted
) -> None:
    """Writes the rows of some segments as others, and commits that these take their place."""
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
    """Why new segments must not take the place of others."""
    before = [one.segment for one in group]
    if sum(one.rows for one in after) != sum(one.rows for one in before) and not doubled(group):
        return "rows were lost on the way"
    if {one.name for one in before} - store.reread().state.segments.keys():
        return "somebody else has changed it meanwhile"
    return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
