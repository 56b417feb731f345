"""Keeps a store small: removes old segments, deletes files no entry names, and folds the log.

Only the holder of the store's lock does this, so no two processes do it at once.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from agent.archive.format.log import LOG_DIRECTORY, LogEntry, StoreState, commit, is_entry_name, read_state
from agent.archive.format.positions import StreamPositions
from agent.archive.format.segments import SEGMENTS_DIRECTORY, SUFFIX, Segment

REMOVED_KEPT_MS = 3_600_000
"""Delay before the file of a removed segment is deleted; it may still be read meanwhile."""
ORPHAN_KEPT_MS = 86_400_000
"""Age from which a file no entry names was left by a crash; a younger one may be about to be committed."""
REPLACED_KEPT_MS = 600_000
FOLDED_AT = 64
"""Number of entries of about the same size that are folded into one."""
TOMBSTONES_MAX = 1024
"""Number of removed segments in entries above which all entries are folded."""
STEP_MS = 600_000
"""Difference between the progress of the wall clock and of the monotonic clock that counts as a step."""
_DAY_MS = 86_400_000


class ClockStepGuard:
    """Tells whether ages by the wall clock can be trusted. They cannot for a day after a step of the clock.

    `newest_ms` is the newest time on record, with which the clock is compared at first.
    """

    def __init__(self, newest_ms: int | None) -> None:
        self._newest_ms = newest_ms
        self._last: tuple[float, int] | None = None
        self._trusted_from = float("-inf")

    def trusts(self, now: float, wall_ms: int) -> bool:
        """Compares the wall clock with the monotonic one."""
        if self._last is not None:
            expected_ms = self._last[1] + int((now - self._last[0]) * 1000)
            has_stepped = abs(wall_ms - expected_ms) > STEP_MS
        else:
            has_stepped = self._newest_ms is not None and abs(wall_ms - self._newest_ms) > _DAY_MS
        if has_stepped:
            self._trusted_from = now + _DAY_MS / 1000
        self._last = now, wall_ms
        return now >= self._trusted_from


def newest_written_ms(state: StoreState) -> int | None:
    return max((segment.written_ms for segment in state.segments.values()), default=None)


def keep_up(store: Path, wall_ms: int, keep_days: float, *, removes: bool = True) -> StoreState:
    """Does all upkeep of a store; returns its state afterwards.

    Segments are removed, if at all, when they were written `keep_days` before the newest one.
    """
    state = read_state(store)
    limit_ms = min(wall_ms, newest_written_ms(state) or wall_ms) - int(keep_days * _DAY_MS)
    if removes and (old := [segment.name for segment in state.segments.values() if segment.written_ms < limit_ms]):
        commit(store, wall_ms, remove=old)
        state = read_state(store)
    _delete_segments(store, state, wall_ms)
    _delete_entries(store / LOG_DIRECTORY, state, wall_ms)
    return read_state(store) if _fold(store, state, wall_ms) else state


def _delete_segments(store: Path, state: StoreState, wall_ms: int) -> None:
    directory = store / SEGMENTS_DIRECTORY
    for entry in os.scandir(directory):
        name = entry.name.removesuffix(SUFFIX)
        if name in state.segments or not entry.is_file():
            continue
        removed_ms = state.removed.get(name)
        is_over = _is_orphan(entry, wall_ms) if removed_ms is None else removed_ms <= wall_ms - REMOVED_KEPT_MS
        if is_over:
            (directory / entry.name).unlink(missing_ok=True)


def _delete_entries(log: Path, state: StoreState, wall_ms: int) -> None:
    """Deletes entries folded a while ago, and files that never became entries."""
    replaced = {
        name
        for entry in state.entries.values()
        if entry.written_ms <= wall_ms - REPLACED_KEPT_MS
        for name in entry.replaces
    }
    for entry in os.scandir(log):
        if entry.name in replaced or (not is_entry_name(entry.name) and _is_orphan(entry, wall_ms)):
            (log / entry.name).unlink(missing_ok=True)


def _is_orphan(entry: os.DirEntry[str], wall_ms: int) -> bool:
    try:
        return entry.stat().st_mtime < (wall_ms - ORPHAN_KEPT_MS) / 1000
    except FileNotFoundError:
        return False


def _fold(store: Path, state: StoreState, wall_ms: int) -> bool:
    """Folds entries into one where there are enough. Entries that remove segments whose files still exist wait."""
    files = {name.removesuffix(SUFFIX) for name in os.listdir(store / SEGMENTS_DIRECTORY)}  # noqa: PTH208
    settled = {name: entry for name, entry in state.entries.items() if files.isdisjoint(entry.remove)}
    tombstones = sum(len(entry.remove) for entry in settled.values())
    by_size: dict[int, list[str]] = defaultdict(list)
    for name, entry in settled.items():
        size = 0 if tombstones > TOMBSTONES_MAX else _size_class(len(entry.add))
        by_size[size].append(name)
    least = 2 if tombstones > TOMBSTONES_MAX else FOLDED_AT
    many = [names for names in by_size.values() if len(names) >= least]
    for names in many:
        _fold_entries(store, {name: settled[name] for name in names}, wall_ms)
    return bool(many)


def _size_class(segments: int) -> int:
    size = 0
    while segments >= FOLDED_AT:
        segments, size = segments // FOLDED_AT, size + 1
    return size


def _fold_entries(store: Path, entries: Mapping[str, LogEntry], wall_ms: int) -> None:
    added: dict[str, Segment] = {segment.name: segment for entry in entries.values() for segment in entry.add}
    removed = {name for entry in entries.values() for name in entry.remove}
    positions: dict[str, StreamPositions] = {}
    for entry in entries.values():
        for stream, one in (entry.positions or {}).items():
            if stream not in positions or positions[stream].sequence < one.sequence:
                positions[stream] = one
    there = set(os.listdir(store / LOG_DIRECTORY))  # noqa: PTH208
    earlier = {name for entry in entries.values() for name in entry.replaces if name in there}
    commit(
        store,
        wall_ms,
        add=[segment for name, segment in added.items() if name not in removed],
        remove=sorted(removed - added.keys()),
        replaces=sorted({*entries, *earlier}),
        positions=positions or None,
    )
