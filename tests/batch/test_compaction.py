"""Segments rewritten: the same rows in fewer or other files, whatever dies meanwhile."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from spark_cluster import SparkCluster
from stores_made import START_MS, add_pieces, add_segment, json_lines

from agent.archive.format.log import commit, read_state
from agent.archive.format.segments import Segment
from elf.batch.table import compaction
from elf.batch.table.compaction import compact, split, sweep
from elf.batch.table.table import ArchiveTable, Range
from elf.errors import ElfError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark_test = pytest.mark.spark
HOUR_MS = 3_600_000


def _table(spark: SparkSession, path: Path) -> ArchiveTable:
    return ArchiveTable.open(spark, [str(path)])


def _segments(path: Path) -> list[Segment]:
    return sorted(read_state(path).segments.values(), key=lambda one: one.first_key)


def _rows(path: Path) -> pl.DataFrame:
    """Raw columns of all rows, as they are in the files, by key."""
    columns = ["key", "written", "raw:time", "raw:file", "raw:offset", "raw:format", "raw:events", "raw:line"]
    frames = [pl.read_parquet(path / one.file, columns=columns) for one in _segments(path)]
    return pl.concat(frames).sort("key")


@spark_test
def test_small_neighbours_become_one_segment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_pieces(tmp_path, json_lines(60) + b"broken\n", [20, 20, 21])
    large = add_segment(tmp_path, json_lines(4000, first=100), offset=1_000_000)
    add_pieces(tmp_path, json_lines(20, first=9000), [10, 10], file_id=8)
    add_segment(tmp_path, json_lines(5), stream="other", file_id=9)
    monkeypatch.setattr(compaction, "SMALL_BYTES", large.bytes)
    before, other = _rows(tmp_path), [one for one in _segments(tmp_path) if one.stream == "other"]
    done = compact(_table(spark, tmp_path))
    assert (len(done.removed), len(done.added)) == (5, 2)
    assert _rows(tmp_path).equals(before)
    after = _segments(tmp_path)
    assert [one.name for one in after if one.stream == "other"] == [one.name for one in other]
    first = min((one for one in after if one.stream == "web"), key=lambda one: one.first_key)
    assert (first.rows, first.events, first.malformed, first.is_complete) == (61, 60, 1, True)
    assert (first.from_ms, first.to_ms, first.written_ms) == (START_MS, START_MS + 59_000, START_MS)
    assert first.origins == [(7, 0, len(json_lines(60)) + len(b"broken\n"))]
    assert compact(_table(spark, tmp_path)).removed == []


@spark_test
def test_a_major_compaction_leaves_each_row_once_in_sorted_ranges(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = json_lines(3000).splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    add_pieces(tmp_path, b"".join(lines), [1000, 1000, 1000])
    add_segment(tmp_path, b"".join(lines[:1500]), written_ms=START_MS + 1)
    monkeypatch.setattr(compaction, "SEGMENT_BYTES", sum(one.bytes for one in _segments(tmp_path)) // 3)
    done = compact(_table(spark, tmp_path), major=True)
    after = _segments(tmp_path)
    assert (len(done.removed), sum(one.rows for one in after), sum(one.events for one in after)) == (4, 3000, 3000)
    assert len(after) > 1
    assert all(one.last_key < other.first_key for one, other in pairwise(after))
    rows = _rows(tmp_path)
    assert sorted(rows["raw:line"]) == sorted(line.rstrip() for line in lines)
    assert rows.filter(pl.col("written") > START_MS).height == 1500
    for one in after:
        keys = pl.read_parquet(tmp_path / one.file, columns=["key"])["key"]
        assert (keys.is_sorted(), keys[0].hex(), keys[-1].hex()) == (True, one.first_key, one.last_key)
        assert (tmp_path / one.file).stat().st_size == one.bytes
    assert compact(_table(spark, tmp_path), major=True).removed == []


@spark_test
def test_columns_of_several_kinds_and_odd_names_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    odd = '{"time": %d, "a b.`;=\\u00e9": %s, "n": %s}\n'
    for number, (first, second) in enumerate((("1", "1"), ('"x"', "0.5"), ("true", str(2**53 + 1)))):
        add_segment(tmp_path, (odd % (START_MS + number, first, second)).encode(), offset=1000 * number)
    compact(_table(spark, tmp_path))
    (segment,) = _segments(tmp_path)
    assert segment.columns["n"] == "any"
    names = ["parsed:n", *(f"parsed:{name}" for name in segment.columns if name.startswith("a b"))]
    rows = _table(spark, tmp_path).scan(Range(), ["raw:time", *names]).collect()
    assert sorted(row[1] for row in rows) == ["0.5", "1", str(2**53 + 1)]


@spark_test
def test_regions_are_split_at_keys(spark: SparkSession, tmp_path: Path) -> None:
    add_segment(tmp_path / "a", json_lines(4000))
    add_segment(tmp_path / "b", json_lines(4000), agent="b")
    before = _rows(tmp_path / "a")
    assert len(split(_table(spark, tmp_path), 4).added) == 8
    assert _rows(tmp_path / "a").equals(before)
    assert all(500 < one.rows < 1500 for one in _segments(tmp_path / "a"))


@spark_test
def test_what_another_one_has_removed_meanwhile_does_not_come_back(spark: SparkSession, tmp_path: Path) -> None:
    first, _ = add_pieces(tmp_path, json_lines(20), [10, 10])
    table = _table(spark, tmp_path)
    commit(tmp_path, START_MS + 1, remove=[first.name])
    before = _segments(tmp_path)
    with pytest.raises(ElfError, match="somebody else has changed it meanwhile, so nothing was committed; try again"):
        compact(table)
    assert _segments(tmp_path) == before
    assert len(list((tmp_path / "segments").iterdir())) == 2


def test_files_that_nobody_needs_are_deleted_in_time(tmp_path: Path) -> None:
    from elf.batch.table.files import LocalDirectory
    from elf.batch.table.stores import read_store as read_anywhere

    now_ms = compaction._now_ms()
    old, young, _kept = add_pieces(tmp_path, json_lines(30), [10] * 3)
    commit(tmp_path, now_ms - 2 * HOUR_MS, remove=[old.name])
    commit(tmp_path, now_ms, remove=[young.name])
    segments = tmp_path / "segments"
    for name, age_h in (("a", 1), ("b", 25)):
        (segments / f"{name * 32}.parquet").write_bytes(b"")
        (segments / f"_writing-{name}").mkdir()
        for made in segments.glob(f"*{name * 32}*"), segments.glob(f"_writing-{name}"):
            for path in made:
                os.utime(path, times=(now_ms / 1000 - age_h * 3600,) * 2)
    assert sweep(read_anywhere(LocalDirectory(tmp_path))) == 3
    left = {path.name for path in segments.iterdir()}
    assert left == {f"{young.name}.parquet", f"{_kept.name}.parquet", f"{'a' * 32}.parquet", "_writing-a"}


KILLED = """
import os, signal, sys
from elf.batch.table import compaction
from elf.batch.session.session import spark_session
from elf.batch.table.table import ArchiveTable

with spark_session(sys.argv[1]) as spark:
    table = ArchiveTable.open(spark, [sys.argv[2]])
    print("ready", flush=True)
    print(len(compaction.compact(table, major=True).added), flush=True)
    compaction.commit = lambda *_args, **_options: os.kill(os.getpid(), signal.SIGKILL)
    compaction.compact(ArchiveTable.open(spark, [sys.argv[3]]), major=True)
"""


@spark_test
@pytest.mark.slow  # five Javas: a cluster and two drivers
def test_nothing_is_lost_or_doubled_when_a_worker_is_killed_and_then_the_driver(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for store in (first, second):
        add_pieces(store, json_lines(3000), [1000] * 3)
    rows, state = _rows(first), read_state(second)
    command = [sys.executable, "-c", KILLED, cluster.master, str(first), str(second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        cluster.workers.pop().kill()
        assert driver.stdout.readline() == "1\n"
        assert driver.wait() == -signal.SIGKILL
    cluster.workers.append(cluster.start_worker())
    assert _rows(first).equals(rows)
    assert read_state(second) == state
    assert len(list((second / "segments").glob("*.parquet"))) == 4
    assert _table(spark, second).scan(columns=["raw:line"]).count() == 3000
    assert compact(_table(spark, second), major=True).added[0].rows == 3000
