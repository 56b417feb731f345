"""Sessions of Spark: in this process, on a cluster, and where there is nothing to run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from elf.batch.session.session import masters_of, spark_errors, start_session
from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_OF_BATCHES = "rows long, key binary"


@pytest.mark.spark
def test_arrow_goes_to_python_workers_and_back(spark: SparkSession) -> None:
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": pa.array([batch.num_rows]), "key": pa.array([b"\x00\xff"])})

    table = spark.range(1000, numPartitions=2).mapInArrow(counted, ROWS_OF_BATCHES).toArrow()
    assert table.to_pydict() == {"rows": [500, 500], "key": [b"\x00\xff"] * 2}


@pytest.mark.spark
def test_an_error_in_a_worker_is_one_line_here(spark: SparkSession) -> None:
    def failing(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("this line says why")

    with pytest.raises(ElfError, match=r"^Spark: ValueError: this line says why$"), spark_errors():
        spark.range(10).mapInArrow(failing, ROWS_OF_BATCHES).toArrow()


def test_masters_are_read_from_the_address() -> None:
    assert masters_of("spark://one:7077,two") == [("one", 7077), ("two", 7077)]
    assert masters_of("local[*]") == ()


@pytest.mark.parametrize("master", ["spark://", "spark://host:port", "http://host", "spark://:7077"])
def test_a_master_that_is_no_address_is_refused(master: str) -> None:
    with pytest.raises(UsageError, match=r"^--master .* (is no address|is none of)"):
        start_session(master)


def test_a_cluster_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(ElfError, match=r"no master answers \(127\.0\.0\.1:1: connection refused\); is the cluster up"):
        start_session("spark://127.0.0.1:1")


def test_no_java_says_what_was_found_instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("elf.batch.session.java.find_spec", lambda _name: None)
    from elf.batch.session.java import find_java

    with pytest.raises(ElfError, match=r"Java 17 or newer, and there is none: .*\(JAVA_HOME\) is Java 8; install one"):
        find_java()
