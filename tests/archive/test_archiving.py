"""Whatever happens to a log and to its archiver, every line is archived once."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from archiving_stream import CRASH_POINTS, ArchivedLog
from compressing import compress, rotate
from hypothesis import given
from hypothesis import strategies as st

from agent.archive.format.log import ArchiveError, read_state
from agent.archive.format.positions import file_path
from agent.archive.format.row_key import decode_key
from agent.archive.writer.archiver import Archiver
from agent.sources import LINE_BYTES_MAX

ACTS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.just(("begin_line",)),
    st.just(("rotate",)),
    st.just(("rotate_meanwhile",)),
    st.tuples(st.just("compress_meanwhile"), st.integers(1, 3)),
    st.just(("truncate",)),
    st.tuples(st.just("step"), st.sampled_from([0.1, 1.1, 29.0, 40.0])),
    st.just(("stop_and_start",)),
    st.just(("crash",)),
    st.tuples(st.just("crash_at"), st.sampled_from(CRASH_POINTS)),
)


@pytest.fixture
def log(tmp_path: Path) -> ArchivedLog:
    return ArchivedLog(tmp_path)


@given(st.lists(ACTS, max_size=25))
def test_every_line_is_archived_once(acts: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = ArchivedLog(Path(folder))
        for act, *given in acts:
            getattr(log, act)(*given)
        log.finish_line()
        log.settle()
        log.stop()
        assert Counter(log.archived()) == Counter(log.written)
        assert log.rows().height == len(log.written)
        check_segments(log)


def check_segments(log: ArchivedLog) -> None:
    """What the log of the store says of its segments is what is in them."""
    for segment in log.segments():
        frame = pl.read_parquet(log.store / segment.file)
        assert (segment.rows, segment.events) == (frame.height, frame["raw:events"].sum())
        assert [key.hex() for key in frame["key"][[0, -1]]] == [segment.first_key, segment.last_key]
        assert (frame["raw:time"].min(), frame["raw:time"].max()) == (segment.from_ms, segment.to_ms)
        for key, offset in zip(frame["key"], frame["raw:offset"], strict=True):
            file_id = decode_key(key).file_id
            assert any(file == file_id and begin <= offset < end for file, begin, end in segment.origins)


def test_nothing_is_written_before_it_is_time(log: ArchivedLog) -> None:
    log.append(3)
    log.step()
    log.step(29.0)
    assert log.segments() == []
    log.step(1.1)
    assert [segment.rows for segment in log.segments()] == [3]


def test_what_is_held_is_written_on_an_orderly_stop(log: ArchivedLog) -> None:
    log.append(3)
    log.step()
    log.stop()
    assert log.archived() == sorted(log.written)


def test_a_full_segment_is_written_at_once(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path, segment_bytes=1000)
    log.append(50)
    log.step()
    assert [segment.rows for segment in log.segments()] == [50]


def test_a_log_read_from_its_end_is_so_only_once(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path, read_from="end")
    log.archiver.close()
    log.append(3)
    log.start()
    log.step()
    log.written.clear()
    log.crash()
    log.append(2)
    log.crash()
    log.append(2)
    log.settle()
    assert log.archived() == sorted(log.written)


def test_a_file_that_becomes_another_while_nobody_reads_is_read_from_its_beginning(log: ArchivedLog) -> None:
    log.append(3)
    log.settle()
    log.archiver.close()
    content = log.log.read_bytes()
    log.log.write_bytes(content.replace(b"n", b"m") * 2)
    log.start()
    log.settle()
    assert len(log.archived()) == 9


def test_what_was_deleted_while_nobody_read_does_not_come_back(log: ArchivedLog) -> None:
    log.append(3)
    log.settle()
    log.archiver.close()
    log.log.unlink()
    log.start()
    log.append(2)
    log.settle()
    assert log.archived() == sorted(log.written)


def test_clock_skewed_and_malformed_lines_keep_their_keys_after_a_crash(log: ArchivedLog) -> None:
    log.append_lines([b'{"time": "2099-01-01T00:00:00Z"}', b"no", b'{"time": "1970-01-01T00:00:01Z"}'])
    log.settle()
    log.crash()
    log.append_lines([b"no!", b""])
    log.settle()
    rows = log.rows().sort("raw:offset")
    assert rows["raw:time"].to_list() == [4_070_908_800_000] * 2 + [1000] * 3
    assert rows["raw:events"].to_list() == [1, 0, 1, 0, None]


def test_a_number_that_becomes_text_is_another_column_type_from_then_on(log: ArchivedLog) -> None:
    for value in (b"200", b'"none"', b"404"):
        log.append_lines([b'{"time": 1, "status": %s}' % value])
        log.settle()
    kinds = [segment.columns["status"] for segment in sorted(log.segments(), key=lambda one: one.written_ms)]
    assert kinds == ["integer", "string", "integer"]
    assert log.archived() != []


def test_an_archive_of_another_agent_is_left_alone(log: ArchivedLog) -> None:
    with pytest.raises(ArchiveError, match="is the archive of agent web-1, not of web-2"):
        Archiver(log.config, "web-2", {}, lambda: 1)


def test_a_torn_entry_stops_the_archiver_with_its_name(log: ArchivedLog) -> None:
    log.append(1)
    log.settle()
    (entry, *_) = (log.store / "log").iterdir()
    entry.write_bytes(entry.read_bytes()[:-20])
    with pytest.raises(ArchiveError, match=entry.name):
        log.start()


def test_a_disk_with_too_little_room_stops_reading_and_nothing_is_lost(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path, disk_free_min=1 << 60)
    log.append(3)
    log.step()
    log.step(40.0)
    assert log.segments() == []
    (status,) = log.archiver.status().streams
    assert status.lag_bytes == log.log.stat().st_size
    assert "disk_free_min" in log.archiver.status().fault
    log.rotate()
    log.append(2)
    log.step(3.0)
    log.set_disk_free_min(0)
    log.settle()
    assert log.archived() == sorted(log.written)
    assert log.archiver.status().fault == ""


def test_what_is_deleted_while_the_disk_has_no_room_is_counted(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path, disk_free_min=1 << 60)
    log.append(3)
    log.step()
    size = log.log.stat().st_size
    log.log.unlink()
    log.step()
    log.append(1)
    log.step()
    (status,) = log.archiver.status().streams
    assert (status.dropped_rows, status.dropped_bytes) == (3, size)
    log.set_disk_free_min(0)
    log.settle()
    assert log.archived() == log.written[3:]
    log.crash()
    assert log.archiver.status().streams[0].dropped_rows == 3


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("point", ["before writing", "before committing", "after committing"])
def test_a_disk_that_fails_is_tried_again(log: ArchivedLog, number: int, point: str) -> None:
    log.append(3)
    log.step()
    with log.failing(point, OSError(number, os.strerror(number), str(log.store / "segments"))):
        log.step(31.0)
        (status,) = log.archiver.status().streams
        assert os.strerror(number).lower() in status.fault
        log.append(2)
        for _ in range(5):
            log.step()
    log.step(60.0)
    log.settle()
    assert log.archiver.status().streams[0].fault == ""
    assert log.archived() == sorted(log.written)
    assert log.rows().height == 5


def test_a_file_that_the_system_cuts_short_is_written_again(log: ArchivedLog) -> None:
    log.append(200)
    log.step()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        log.step(31.0)
        assert "file too large" in log.archiver.status().streams[0].fault
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((log.store / "segments").iterdir()) == []
    log.step(60.0)
    log.settle()
    assert log.archived() == sorted(log.written)


def test_an_archive_that_vanishes_and_comes_back(log: ArchivedLog, tmp_path: Path) -> None:
    log.append(3)
    log.step()
    shutil.move(log.store, tmp_path / "elsewhere")
    log.step(31.0)
    assert "no such file" in log.archiver.status().streams[0].fault
    shutil.move(tmp_path / "elsewhere", log.store)
    log.step(60.0)
    log.settle()
    assert log.archived() == sorted(log.written)


def test_files_that_cannot_be_parsed_are_not_archived_and_said(log: ArchivedLog) -> None:
    log.log.write_bytes(b"\0\1\2\3binary\n" * 99)
    log.settle()
    assert read_state(log.store).segments == {}


def test_a_log_whose_name_is_not_unicode_is_archived_and_found_again(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path, name=os.fsdecode(b"acc\xe9ss %.log"))
    log.append(5)
    log.settle()
    log.rotate_meanwhile()
    log.append(5)
    log.settle()
    log.stop_and_start()
    log.append(5)
    log.settle()
    log.stop()
    state = read_state(log.store)
    assert sum(segment.rows for segment in state.segments.values()) == len(log.written) >= 15
    names = {name for one in state.segments.values() for name in pl.read_parquet(log.store / one.file)["raw:file"]}
    assert str(log.log) in {file_path(name) for name in names}


@pytest.mark.parametrize("rotations", [1, 2, 4])
def test_no_file_is_lost_that_came_and_went_while_no_archiver_ran(tmp_path: Path, rotations: int) -> None:
    log = ArchivedLog(tmp_path)
    log.append(100)
    rotate(log.log)
    log.append(100)
    log.settle()
    log.stop()
    older = log.log.with_name(f"{log.log.name}.1")
    os.utime(older, ns=(0, 0))
    log.written = log.written[-100:]  # of the files that were there before, the archiver reads the log alone
    for _ in range(rotations):
        log.append(50)
        rotate(log.log)
    log.append(50)
    log.start()
    log.settle()
    assert log.archived() == sorted(log.written)
    assert len(log.archived()) == 100 + 50 * (rotations + 1)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("delay", [False, True])
def test_files_that_were_compressed_while_no_archiver_ran_are_archived(
    tmp_path: Path, suffix: str, delay: bool
) -> None:
    log = ArchivedLog(tmp_path)
    log.append(100)
    log.settle()
    log.append(20)
    log.step()
    log.crash()  # with rows that it holds
    log.archiver.close()
    for _ in range(3):
        log.append(100)
        rotate(log.log, suffix=suffix, delay=delay)
    log.append(100)
    log.start()
    log.settle()
    log.stop_and_start()
    log.settle()
    assert log.archived() == sorted(log.written)
    assert log.rows().height == len(log.written)
    assert log.archiver.status().streams[0].gaps == 0


def test_a_compressed_file_that_cannot_be_read_is_named_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = ArchivedLog(tmp_path)
    log.append(100)
    log.settle()
    log.stop()
    rotate(log.log)
    log.append(100)
    rotate(log.log)
    middle = log.log.with_name(f"{log.log.name}.1")
    middle.rename(middle.with_name(f"{middle.name}.gz"))
    log.append(100)
    log.start()
    log.settle()
    assert f"{middle.name}.gz: it holds no compressed data" in str([vars(record) for record in caplog.records])
    assert len(log.archived()) == 200
    assert log.archiver.status().streams[0].gaps == 1


def test_what_is_compressed_while_the_disk_has_no_room_is_archived_from_there(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path, disk_free_min=1 << 60)
    log.append(300)
    log.step()
    rotate(log.log)
    log.append(10)
    log.step()
    compress(log.log.with_name("access.log.1"))
    log.step()
    log.append(10)
    log.step()
    assert log.archiver.status().streams[0].dropped_rows == 0
    assert log.archiver.status().streams[0].lag_bytes > 0
    log.set_disk_free_min(0)
    log.settle()
    assert log.archived() == sorted(log.written)
    assert log.rows().height == 320


def test_rows_of_a_closed_file_that_are_held_are_read_again_after_a_crash(tmp_path: Path) -> None:
    log = ArchivedLog(tmp_path)
    log.append(3)
    log.settle()
    with log.failing("before writing", OSError(errno.EIO, "no disk", "segments")):
        rotate(log.log, suffix=".gz")
        log.append(3)
        for _ in range(8):
            log.step(20.0)
        (tmp_path / "access.log.new").touch()
    log.rotate()
    log.append(2)
    log.step()
    log.crash()
    log.settle()
    assert log.archived() == sorted(log.written)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_line_that_is_too_long_is_counted_however_it_arrives(tmp_path: Path, steps: int) -> None:
    log = ArchivedLog(tmp_path)
    log.append(3)
    for number in range(steps):
        with log.log.open("ab") as file:
            file.write(b"x" * (2 * LINE_BYTES_MAX // steps) + (b"\n" if number == steps - 1 else b""))
        log.step(1.1)
    log.append(3)
    log.settle()
    log.stop()
    segments = read_state(log.store).segments.values()
    assert sum(segment.rows for segment in segments) == 6
    assert [sum(segment.overlong for segment in segments), sum(segment.malformed for segment in segments)] == [1, 1]
