"""Rows as files: logs that are again what they were, and tables that others read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from stores_made import START_MS, add_pieces, json_lines

from elf.batch.table.export import export
from elf.batch.table.ingest import BulkLoad, ingest
from elf.batch.table.table import ArchiveTable, Range
from elf.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_logs_are_again_what_they_were(spark: SparkSession, tmp_path: Path, real_logs: Path) -> None:
    add_pieces(tmp_path / "archive" / "web-1", json_lines(30) + b"\xff broken\r\n\n" + json_lines(30), [10, 40, 12])
    log = real_logs / "apache" / "access.log.gz"
    ingest(spark, BulkLoad(str(tmp_path / "archive"), "web/=1", [str(log)], "bulk"))
    files = export(ArchiveTable.open(spark, [str(tmp_path / "archive")]), Range(), str(tmp_path / "out"), "lines")
    assert [file.rpartition(".")[0] for file in files] == ["bulk/web_=1/access.log.gz", "web-1/web/access.log"]
    assert (tmp_path / "out" / files[0]).read_bytes() == gzip.decompress(log.read_bytes())
    assert (tmp_path / "out" / files[1]).read_bytes() == json_lines(30) + b"\xff broken\r\n\n" + json_lines(30)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"bulk", "web-1"}


def test_tables_are_written_in_the_order_of_times(
    spark: SparkSession, tmp_path: Path, elsewhere: Callable[[Path], str]
) -> None:
    add_pieces(tmp_path / "archive", b"".join(reversed(json_lines(40).splitlines(keepends=True))), [20, 20])
    table = ArchiveTable.open(spark, [str(tmp_path / "archive")])
    wanted, columns = Range(None, START_MS + 5000, START_MS + 25_000), ["parsed:n", "raw:line", "raw:time"]
    read: dict[str, list[object]] = {}
    for form in ("parquet", "csv", "json"):
        out = tmp_path / form
        files = export(table, wanted, elsewhere(out), form, columns)  # type: ignore[arg-type]
        if form == "parquet":
            read[form] = pl.concat([pl.read_parquet(out / file) for file in files])["parsed:n"].to_list()
        elif form == "csv":
            read[form] = pl.concat([pl.read_csv(out / file) for file in files])["parsed:n"].to_list()
        else:
            rows = [json.loads(line) for file in files for line in (out / file).read_text().splitlines()]
            read[form] = [row["parsed:n"] for row in rows]
            assert rows[0]["raw:time"] == "2023-11-14T22:13:05.000Z"
            assert json.loads(rows[0]["raw:line"])["n"] == 5
    assert read == {form: list(range(5, 25)) for form in read}


def test_nothing_is_written_over(spark: SparkSession, tmp_path: Path) -> None:
    add_pieces(tmp_path / "archive", json_lines(1), [1])
    with pytest.raises(UsageError, match=r"archive: is there already, and has something in it"):
        export(ArchiveTable.open(spark, [str(tmp_path / "archive")]), Range(), str(tmp_path / "archive"), "lines")
