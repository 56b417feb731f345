"""What keeps a store small changes nothing of what it holds."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from archived import rows_of_text
from archiving_stream import ArchivedLog
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.archive.format.log import commit, create_store, read_state
from agent.archive.format.positions import StreamPositions
from agent.archive.format.segments import Segment, write_segment
from agent.archive.writer.archiver import UPKEEP_S
from agent.archive.writer.upkeep import FOLDED_AT, TOMBSTONES_MAX, ClockStepGuard, keep_up

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    create_store(tmp_path / "store", "web-1")
    return tmp_path / "store"


def added(store: Path, written_ms: int) -> Segment:
    segment = write_segment(store, rows_of_text(b'{"time": 5}\n'), written_ms)
    commit(store, written_ms, add=[segment])
    return segment


def files(store: Path) -> set[str]:
    return {path.stem for path in (store / "segments").iterdir()}


def entries(store: Path) -> set[str]:
    return {path.name for path in (store / "log").iterdir()}


def test_old_segments_leave_and_their_files_later(store: Path) -> None:
    old, new = added(store, NOW_MS - 14 * DAY_MS), added(store, NOW_MS - 6 * DAY_MS)
    assert set(keep_up(store, NOW_MS, 7).segments) == {new.name}
    assert files(store) == {old.name, new.name}
    keep_up(store, NOW_MS + HOUR_MS - 1, 7)
    assert files(store) == {old.name, new.name}
    keep_up(store, NOW_MS + HOUR_MS, 7)
    assert files(store) == {new.name}


def test_age_is_measured_against_the_newest_segment(store: Path) -> None:
    segments = {added(store, NOW_MS - days * DAY_MS).name for days in (9, 8)}
    assert set(keep_up(store, NOW_MS, 7).segments) == segments
    newest = added(store, NOW_MS).name
    assert set(keep_up(store, NOW_MS, 7, removes=False).segments) == {*segments, newest}
    assert set(keep_up(store, NOW_MS, 7).segments) == {newest}


def test_after_a_step_of_the_clock_ages_are_not_trusted_for_a_day() -> None:
    guard = ClockStepGuard(NOW_MS - HOUR_MS)
    assert guard.trusts(0.0, NOW_MS)
    assert guard.trusts(600.0, NOW_MS + 600_000)
    assert not guard.trusts(1_200.0, NOW_MS + 40 * DAY_MS)
    assert not guard.trusts(1_800.0, NOW_MS + 1_800_000)
    assert not guard.trusts(1_800.0 + 86_399, NOW_MS + 1_800_000 + 86_399_000)
    assert guard.trusts(1_800.0 + 86_400, NOW_MS + 1_800_000 + DAY_MS)
    assert not ClockStepGuard(NOW_MS).trusts(0.0, NOW_MS + 40 * DAY_MS)
    assert ClockStepGuard(None).trusts(0.0, NOW_MS)


def test_a_clock_that_is_wrong_for_one_look_removes_nothing(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path)
    log.append(5)
    log.settle()
    kept = set(read_state(log.store).segments)
    assert kept
    log.clock_ahead_ms = 40 * DAY_MS
    log.step(UPKEEP_S)
    log.append(5)
    log.settle()
    log.step(UPKEEP_S)
    log.clock_ahead_ms = 0
    log.step(UPKEEP_S)
    assert set(read_state(log.store).segments) > kept
    log.stop()


def test_old_events_that_were_archived_lately_stay(store: Path) -> None:
    segment = added(store, NOW_MS)
    assert segment.to_ms == 5000
    assert set(keep_up(store, NOW_MS, 7).segments) == {segment.name}


def test_files_that_nothing_names_are_deleted_when_they_are_a_day_old(store: Path) -> None:
    old, new = (write_segment(store, rows_of_text(b"{}\n", kind="json"), NOW_MS) for _ in range(2))
    (store / "segments" / "of-a-compaction").mkdir()
    unfinished = store / "log" / ".0000000000010-0.json.new"
    unfinished.write_bytes(b"{")
    os.utime(store / "segments" / "of-a-compaction", (0, 0))
    for path, age_s in ((store / old.file, 86_401), (store / new.file, 86_000), (unfinished, 86_401)):
        os.utime(path, (NOW_MS / 1000 - age_s,) * 2)
    keep_up(store, NOW_MS, 7)
    assert files(store) == {new.name, "of-a-compaction"}
    assert entries(store) == set()


def test_many_entries_become_one_and_readers_have_time_to_notice(store: Path) -> None:
    segments = [added(store, NOW_MS + number) for number in range(FOLDED_AT)]
    before = entries(store)
    state = keep_up(store, NOW_MS + 1000, 7)
    assert set(state.segments) == {segment.name for segment in segments}
    assert len(state.entries) == 1
    assert before < entries(store)
    keep_up(store, NOW_MS + HOUR_MS, 7)
    assert len(entries(store)) == 1
    assert set(read_state(store).segments) == set(state.segments)


def test_entries_that_remove_what_is_still_there_are_not_folded(store: Path) -> None:
    segments = [added(store, NOW_MS) for _ in range(FOLDED_AT)]
    commit(store, NOW_MS, remove=[segments[0].name])
    state = keep_up(store, NOW_MS + 1000, 7)
    assert len(state.segments) == FOLDED_AT - 1
    assert state.removed == {segments[0].name: NOW_MS}


def test_names_of_removed_segments_do_not_pile_up(store: Path) -> None:
    for number in range(3):
        names = [f"{number}-{one}" for one in range(TOMBSTONES_MAX)]
        template = added(store, NOW_MS)
        (store / template.file).unlink()
        commit(store, NOW_MS, add=[copy(template, name) for name in names])
        commit(store, NOW_MS, remove=[*names, template.name])
        keep_up(store, NOW_MS + 2 * HOUR_MS, 7)
    assert read_state(store).removed == {}


def copy(segment: Segment, name: str) -> Segment:
    return msgspec.structs.replace(segment, name=name)


ACTS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 80)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("compact"), st.integers(0, 9)),
    st.tuples(st.just("keep up"), st.sampled_from([1000, HOUR_MS])),
)


@settings(max_examples=15)  # each commit waits for the disk
@given(st.lists(ACTS, max_size=10))
def test_a_store_holds_what_was_added_and_not_removed(acts: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        create_store(store, "web-1")
        template = write_segment(store, rows_of_text(b'{"time": 5}\n'), NOW_MS)
        names, held, now_ms, sequence = itertools.count(), list[str](), NOW_MS, 0
        for act, number in acts:
            now_ms += 1
            if act == "add":
                for _ in range(number):
                    sequence += 1
                    name = str(next(names))
                    positions = {"web": StreamPositions(sequence, [])}
                    commit(store, now_ms, add=[copy(template, name)], positions=positions)
                    (store / "segments" / f"{name}.parquet").write_bytes(b"")
                    held.append(name)
            elif act == "remove":
                commit(store, now_ms, remove=held[:number])
                del held[:number]
            elif act == "compact":
                name = str(next(names))
                commit(store, now_ms, add=[copy(template, name)], remove=held[-number:])
                held = [*(held[:-number] if number else []), name]
            else:
                now_ms += number
                keep_up(store, now_ms, 7)
            state = read_state(store)
            assert set(state.segments) == set(held)
            assert state.positions.get("web", StreamPositions(0, [])).sequence == sequence
