"""What is known of a stream's columns: the union of what its files show."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from agent.feeding.stream_schema import FILES_LOOKED_AT_MAX, schema_of, stream_schema
from agent.parsing import Format
from agent.sources.file.source import FileSource


def test_the_schema_is_the_union_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"time": 1767225600, "a": {"b": 1}}\n')
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'{"c": 1}\n'))
    (tmp_path / "c.json").write_text("")
    (tmp_path / "broken.json").write_text("what is this\n")
    (tmp_path / "d.json").mkdir()
    schema = stream_schema(FileSource((str(tmp_path / "*.json*"),)))
    assert schema.columns == dict.fromkeys(["time", "a", "a.b", "c"], "any")
    assert schema.open


def test_tables_and_access_logs_have_no_other_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,product\n1767225600,hat\n")
    (tmp_path / "empty.csv").touch()
    assert stream_schema(FileSource((str(tmp_path / "*.csv"),))).columns == {"time": "text", "product": "text"}
    assert not stream_schema(FileSource((str(tmp_path / "*.csv"),))).open
    (tmp_path / "b.csv").write_text('10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5\n')
    mixed = stream_schema(FileSource((str(tmp_path / "*.csv"),)))
    assert mixed.columns["time"] == "any"
    assert mixed.columns["status"] == "integer"
    assert not mixed.open


def test_a_stream_without_files_may_hold_everything(tmp_path: Path) -> None:
    schema = stream_schema(FileSource((str(tmp_path / "*.log"),)))
    assert (schema.columns, schema.open) == ({}, True)
    (tmp_path / "a.log").touch()
    assert stream_schema(FileSource((str(tmp_path / "*.log"),)), "csv").open
    assert schema_of([Format("csv", None), Format("csv", None, ("a", "b"))]).open is False


def test_of_many_files_the_latest_are_looked_at(tmp_path: Path) -> None:
    for number in range(FILES_LOOKED_AT_MAX + 10):
        path = tmp_path / f"{number}.json"
        path.write_text(f'{{"field{number}": 1}}\n')
        os.utime(path, (number, number))
    columns = stream_schema(FileSource((str(tmp_path / "*.json"),))).columns
    assert set(columns) == {f"field{number}" for number in range(10, FILES_LOOKED_AT_MAX + 10)}
