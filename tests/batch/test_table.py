"""The archive as a table: what is read of it, and what is said of one that is not whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from stores_made import START_MS, add_pieces, add_segment, json_lines, rows_of

from agent.archive.format.log import create_store, read_state
from agent.archive.format.row_key import RowKeyError, decode_key
from elf.batch.table.stores import find_store, open_stores, put
from elf.batch.table.table import ArchiveTable, Range
from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark_test = pytest.mark.spark


def _scanned(table: ArchiveTable, wanted: Range, *columns: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in table.scan(wanted, columns).collect())


@spark_test
def test_rows_are_scanned_by_time_from_the_segments_that_have_them(spark: SparkSession, tmp_path: Path) -> None:
    add_pieces(tmp_path / "web-1", json_lines(100), [10] * 10)
    add_segment(tmp_path / "web-2", json_lines(100), agent="web-2")
    add_segment(tmp_path / "web-2", json_lines(5), agent="web-2", stream="other", file_id=8)
    table = ArchiveTable.open(spark, [str(tmp_path)])
    assert (table.streams(), table.agents(["web"])) == (["other", "web"], ["web-1", "web-2"])
    wanted = Range(frozenset(["web"]), START_MS + 25_000, START_MS + 30_000)
    assert len(table.segments(wanted)) == 2
    assert _scanned(table, wanted, "raw:agent", "parsed:n") == [
        (agent, n) for agent in ("web-1", "web-2") for n in range(25, 30)
    ]


@spark_test
def test_lines_are_as_they_were_and_every_row_has_its_key(spark: SparkSession, tmp_path: Path) -> None:
    data = json_lines(20) + b'{"time": broken \xff\n' + json_lines(1, first=20)
    add_segment(tmp_path, data)
    table = ArchiveTable.open(spark, [str(tmp_path)])
    rows = sorted(table.scan().collect(), key=lambda row: row["raw:offset"])
    assert b"".join(bytes(row["raw:line"]) + b"\n" for row in rows) == data
    key = bytes(rows[20]["key"])
    found = table.get(key)
    assert found is not None
    assert (found["raw:events"], decode_key(key).offset) == (0, rows[20]["raw:offset"])
    assert table.get(key[:-1] + b"\x01") is None
    with pytest.raises(RowKeyError):
        table.get(b"no key")


@spark_test
def test_a_column_that_changes_its_kind_has_values_of_all(spark: SparkSession, tmp_path: Path) -> None:
    for number, status in enumerate(("200", '"20\\u001b"', "2.5", "true", '{"code": 1}')):
        add_segment(tmp_path, json_lines(1, first=number, status=status), offset=1000 * number)
    table = ArchiveTable.open(spark, [str(tmp_path)])
    assert table.columns(["web"])["status"] == "any"
    read = _scanned(table, Range(), "parsed:n", "parsed:status")
    assert [value for _, value in read] == ["200", '"20\\u001b"', "2.5", "true", None]
    numbers = Range(None, START_MS, START_MS + 2000)
    assert _scanned(table, numbers, "parsed:status") == [('"20\\u001b"',), ("200",)]
    third = Range(None, START_MS + 2000, START_MS + 3000)
    assert _scanned(table, third, "parsed:status", "parsed:status.code") == [(2.5, None)]


@spark_test
def test_integers_and_numbers_are_numbers_together(spark: SparkSession, tmp_path: Path) -> None:
    add_segment(tmp_path, json_lines(1, status="200"))
    add_segment(tmp_path, json_lines(1, first=1, status="0.5"), offset=1000)
    assert _scanned(ArchiveTable.open(spark, [str(tmp_path)]), Range(), "parsed:status") == [(0.5,), (200.0,)]


@spark_test
def test_what_was_read_twice_counts_once_as_it_was_written_last(spark: SparkSession, tmp_path: Path) -> None:
    add_pieces(tmp_path, json_lines(30), [10, 10, 10])
    add_segment(tmp_path, json_lines(20), written_ms=START_MS + 1)
    rows = ArchiveTable.open(spark, [str(tmp_path)]).scan(columns=["parsed:n", "written"]).collect()
    assert sorted((row["parsed:n"], row["written"] - START_MS) for row in rows) == [(n, n < 20) for n in range(30)]


@spark_test
def test_a_line_with_several_events_may_have_some_of_another_time(spark: SparkSession, tmp_path: Path) -> None:
    add_segment(tmp_path, json_lines(1).rstrip() + json_lines(1, first=60) + json_lines(1, first=2))
    table = ArchiveTable.open(spark, [str(tmp_path)])
    rows = table.rows(["web"], START_MS + 60_000, START_MS + 61_000, ["raw:events"]).collect()
    assert [row["raw:events"] for row in rows] == [2]


@spark_test
def test_a_column_that_nobody_has_is_named(spark: SparkSession, tmp_path: Path) -> None:
    add_segment(tmp_path, json_lines(1))
    table = ArchiveTable.open(spark, [str(tmp_path)])
    with pytest.raises(UsageError, match=r"^no segment has a column parsed:nope; there are key, written, .*parsed:n"):
        table.scan(columns=["parsed:nope"])
    assert table.scan(Range(frozenset(["nope"])), ["parsed:n"]).columns == ["parsed:n"]


@spark_test
def test_torn_segments_are_named_and_left_out_only_when_asked(spark: SparkSession, tmp_path: Path) -> None:
    cut, blank, gone, _ = (tmp_path / one.file for one in add_pieces(tmp_path, json_lines(40), [10] * 4))
    cut.write_bytes(cut.read_bytes()[:-100])
    blank.write_bytes(bytes(blank.stat().st_size))
    gone.unlink()
    with pytest.raises(ElfError, match=r"\.parquet: is (torn|damaged|missing).*, and 2 more; .*--skip-torn$"):
        ArchiveTable.open(spark, [str(tmp_path)]).scan()
    table = ArchiveTable.open(spark, [str(tmp_path)], skip_torn=True)
    assert _scanned(table, Range(), "parsed:n") == [(n,) for n in range(30, 40)]
    assert sorted(table.skipped) == sorted([cut.stem, blank.stem, gone.stem])


def test_rows_are_put_as_one_segment(tmp_path: Path) -> None:
    store = find_store(str(tmp_path), "web-1", None)
    put(store, [rows_of(json_lines(10), agent="web-1")], START_MS)
    (segment,) = read_state(tmp_path / "web-1").segments.values()
    assert (segment.rows, [form.kind for form in segment.formats]) == (10, ["json"])
    assert pl.read_parquet(tmp_path / "web-1" / segment.file)["parsed:n"].to_list() == list(range(10))
    assert find_store(str(tmp_path), "web-1", None).info == store.info


def test_damaged_stores_are_refused_by_name(tmp_path: Path) -> None:
    store = tmp_path / "web-1"
    add_segment(store, json_lines(1))
    entry = next((store / "log").iterdir())
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-5])
    _refused([tmp_path], rf"{entry.name}: is damaged")
    entry.write_bytes(whole)
    info = (store / "store.json").read_bytes()
    (store / "store.json").unlink()
    _refused([tmp_path], "its store.json is missing")
    (store / "store.json").write_bytes(info)
    shutil.rmtree(store / "log")
    _refused([store], "its log is missing: the archive is not whole")
    _refused([tmp_path / "nowhere"], "nowhere: there is no archive")


def test_two_stores_of_one_agent_are_refused_but_copies_are_one(tmp_path: Path) -> None:
    add_segment(tmp_path / "a", json_lines(1))
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    assert len(open_stores([str(tmp_path)], None)) == 2
    create_store(tmp_path / "b", "web-1")
    _refused([tmp_path], r"/a and .*/b both say they are of agent web-1, and are two")


@spark_test
def test_other_file_systems_are_read_through_hadoop(
    spark: SparkSession, tmp_path: Path, elsewhere: Callable[[Path], str]
) -> None:
    add_pieces(tmp_path, json_lines(20), [10, 10])
    table = ArchiveTable.open(spark, [elsewhere(tmp_path)])
    assert table.stores[0].state == read_state(tmp_path)
    assert len(_scanned(table, Range(), "parsed:n")) == 20
    directory = table.stores[0].directory
    directory.write("log/x", b"\x00\xff")
    assert (directory.read("log/x"), (tmp_path / "log" / "x").read_bytes()) == (b"\x00\xff", b"\x00\xff")
    directory.move("log/x", "log/y")
    directory.delete("log/y")
    assert [one.name for one in directory.list("log") if one.name in "xy"] == []


@spark_test
def test_a_file_system_that_is_not_there_is_said(spark: SparkSession) -> None:
    for uri, why in (
        ("hdfs://127.0.0.1:1/x", "refused"),
        ("hdfs://no-such-host.invalid/x", "UnknownHost"),
        ("nope://host/x", "No FileSystem for scheme"),
    ):
        with pytest.raises(ElfError, match=rf"^{uri}.*: cannot be used: .*{why}"):
            ArchiveTable.open(spark, [uri])


def _refused(uris: list[Path], said: str) -> None:
    with pytest.raises(ElfError, match=said):
        open_stores([str(uri) for uri in uris], None)
