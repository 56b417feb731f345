"""Bulk loads: what is in the table after them, whatever the files are like and however often they are loaded."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
import zstandard
from seeds import seeds
from stores_made import START_MS, json_lines

from agent.archive.format.rows import FileOrigin
from agent.parsing import sniff
from elf.batch.table.ingest import BulkLoad, BulkLoadReport, ingest
from elf.batch.table.loading import FileSplit, read_split
from elf.batch.table.table import ArchiveTable, Range
from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark_test = pytest.mark.spark
CSV = b'time,note\n2026-01-01T00:00:00Z,"two\nlines"\n2026-01-01T00:00:01Z,one\n'


def _load(spark: SparkSession, archive: Path, *files: Path | str) -> BulkLoadReport:
    return ingest(spark, BulkLoad(str(archive), "web", [str(file) for file in files], "bulk"))


def _content(spark: SparkSession, archive: Path) -> dict[str, bytes]:
    """The bytes of each file, as far as they are in the table."""
    rows = ArchiveTable.open(spark, [str(archive)]).scan(columns=["raw:file", "raw:offset", "raw:line"]).collect()
    content: dict[str, bytes] = {}
    for path, offset, line in sorted(map(tuple, rows)):
        assert len(content.get(path, b"")) == offset
        content[path] = content.get(path, b"") + bytes(line) + b"\n"
    return content


@spark_test
def test_files_of_all_kinds_are_loaded_once(spark: SparkSession, tmp_path: Path) -> None:
    data = json_lines(300) + b"no event\n\n" + json_lines(5, first=300)
    files = {
        "a.json": data,
        "b.json.gz": gzip.compress(data),
        "c.zst": zstandard.compress(data),
        "d.csv": CSV,
        "e": b"",
    }
    (tmp_path / "logs").mkdir()
    for name, written in files.items():
        (tmp_path / "logs" / name).write_bytes(written)
    archive = tmp_path / "archive"
    loaded = _load(spark, archive, tmp_path / "logs" / "*")
    assert (loaded.files, loaded.present, loaded.faults) == (5, 0, [])
    assert (sum(one.events for one in loaded.segments), sum(one.malformed for one in loaded.segments)) == (917, 3)
    expected = {str(tmp_path / "logs" / name): CSV if name == "d.csv" else data for name in files if name != "e"}
    assert _content(spark, archive) == expected
    again = _load(spark, archive, *(tmp_path / "logs" / name for name in files))
    assert (again.files, again.present, again.segments) == (5, 4, [])


@spark_test
def test_of_a_file_that_has_grown_only_the_rest_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    plain, packed, archive = tmp_path / "a.json", tmp_path / "b.json.gz", tmp_path / "archive"
    first, more = json_lines(50), b"broken\n" + json_lines(20, first=50)
    plain.write_bytes(first)
    packed.write_bytes(gzip.compress(first))
    _load(spark, archive, plain, packed)
    plain.write_bytes(first + more)
    packed.write_bytes(gzip.compress(first) + gzip.compress(more))
    loaded = _load(spark, archive, plain, packed)
    assert sum(one.rows for one in loaded.segments) == 42
    assert _content(spark, archive) == {str(plain): first + more, str(packed): first + more}
    broken = ArchiveTable.open(spark, [str(archive)]).scan(columns=["raw:time", "raw:events"]).where("`raw:events` = 0")
    assert [row["raw:time"] for row in broken.collect()] == [START_MS + 49_000] * 2


@spark_test
def test_a_file_that_was_small_is_still_the_same_when_it_has_grown(spark: SparkSession, tmp_path: Path) -> None:
    file, archive, data = tmp_path / "a.json", tmp_path / "archive", json_lines(200)
    for lines in (2, 5, 200):
        file.write_bytes(json_lines(lines))
        _load(spark, archive, file)
    assert _content(spark, archive) == {str(file): data}
    assert _load(spark, archive, file).present == 1


@spark_test
def test_a_last_line_that_was_not_whole_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    file, archive, data = tmp_path / "a.json", tmp_path / "archive", json_lines(60)
    file.write_bytes(data[:-20])
    assert sum(one.malformed for one in _load(spark, archive, file).segments) == 1
    file.write_bytes(data)
    _load(spark, archive, file)
    numbers = ArchiveTable.open(spark, [str(archive)]).scan(Range(), ["parsed:n"]).collect()
    assert sorted(row[0] for row in numbers if row[0] is not None) == list(range(60))


@spark_test
def test_a_damaged_file_is_loaded_as_far_as_it_goes(spark: SparkSession, tmp_path: Path) -> None:
    file, archive, data = tmp_path / "a.json.gz", tmp_path / "archive", json_lines(5000)
    file.write_bytes(gzip.compress(data)[:-3000])
    loaded = _load(spark, archive, file)
    assert loaded.faults[0].startswith(f"{file}: ")
    assert 0 < sum(one.rows for one in loaded.segments) < 5000
    file.write_bytes(gzip.compress(data))
    assert _load(spark, archive, file).faults == []
    assert _content(spark, archive) == {str(file): data}


@spark_test
def test_real_logs_come_back_as_they_were(spark: SparkSession, tmp_path: Path, real_logs: Path) -> None:
    log = real_logs / "apache" / "access.log.gz"
    _load(spark, tmp_path / "archive", log)
    assert _content(spark, tmp_path / "archive") == {str(log): gzip.decompress(log.read_bytes())}


@spark_test
def test_a_store_elsewhere_gets_its_segments_through_spark(
    spark: SparkSession, tmp_path: Path, elsewhere: Callable[[Path], str]
) -> None:
    file, archive = tmp_path / "a.json", tmp_path / "archive"
    file.write_bytes(json_lines(100))
    loaded = ingest(spark, BulkLoad(elsewhere(archive), "web", [str(file)], "bulk"))
    assert [one.rows for one in loaded.segments] == [100]
    assert _content(spark, archive) == {str(file): json_lines(100)}


@spark_test
def test_what_cannot_be_loaded_is_said_and_nothing_is_there(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_bytes(json_lines(3))
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 10)
    for file, why in (("binary", "is binary"), ("nowhere", "no such file"), ("no*", "no file is called like that")):
        with pytest.raises(UsageError, match=rf"{file.replace('*', '.*')}: {why}"):
            _load(spark, tmp_path / "archive", tmp_path / "good.json", tmp_path / file)
    assert not (tmp_path / "archive").exists()
    _load(spark, tmp_path / "archive", tmp_path / "good.json")
    with pytest.raises(ElfError, match="is the archive of agent bulk, not of web-1: name it with --agent"):
        ingest(spark, BulkLoad(str(tmp_path / "archive" / "bulk"), "web", [str(tmp_path / "good.json")], "web-1"))


@pytest.mark.parametrize("step", seeds(17, 300, 5000, slow=[1]))
def test_pieces_of_a_file_make_the_rows_of_the_whole(tmp_path: Path, step: int) -> None:
    file = tmp_path / "a.json"
    data = b"broken\n" + json_lines(10) + b"broken\n" * 40 + json_lines(5, first=10) + b'{"time": 5, "last'
    file.write_bytes(data)
    origin = FileOrigin("web", "bulk", str(file), 1, sniff(data, str(file)))
    cuts = [0, *range(200, len(data), step)]
    whole = _rows([FileSplit(origin, 0, None, True, 77)])
    pieces = [FileSplit(origin, begin, end, True, 77) for begin, end in zip(cuts, [*cuts[1:], None], strict=True)]
    assert _rows(pieces).equals(whole)
    packed = [FileSplit(origin, begin, None, False, 77) for begin in (0, data.index(b"\n", len(data) // 2) + 1)]
    assert _rows(packed[:1]).equals(whole)
    assert _rows(packed[1:]).equals(whole.filter(pl.col("offset") >= packed[1].begin))


def _rows(pieces: list[FileSplit]) -> pl.DataFrame:
    lots = [rows for piece in pieces for rows in read_split(piece)]
    columns = [pl.DataFrame({"offset": one.offsets, "time": one.times, "line": one.lines}) for one in lots]
    return pl.concat(columns).sort("offset")
