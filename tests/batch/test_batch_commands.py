"""The verbs of `elf batch` that keep the archive, as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from spark_cluster import SparkCluster
from stores_made import add_pieces, json_lines

from elf.batch.table.table import ArchiveTable
from elf.cli import cli
from elf.commands.batch import VERBS
from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    add_pieces(tmp_path / "archive" / "web-1", json_lines(30) + b"\x1b broken \xff\n", [10, 10, 11])
    return tmp_path / "archive"


def _run(archive: Path, verb: str, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["batch", verb, *arguments, "--archive", str(archive)], catch_exceptions=True)
    if isinstance(result.exception, ElfError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def _objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("in_session")
def test_scan_and_get_show_rows(archive: Path) -> None:
    times = ["--from", "2023-11-14T22:13:05Z", "--to", "2023-11-14 22:13:07"]
    rows = _objects(_run(archive, "scan", *times, "--columns", "key,raw:time,parsed:n", "--output", "json"))
    assert [(row["raw:time"], row["parsed:n"]) for row in rows] == [
        ("2023-11-14T22:13:05Z", 5), ("2023-11-14T22:13:06Z", 6),
    ]  # fmt: skip
    (found,) = _objects(_run(archive, "get", rows[1]["key"], "--output", "json"))
    assert (found["key"], found["parsed:n"], json.loads(found["raw:line"])["n"]) == (rows[1]["key"], 6, 6)
    assert "2023-11-14T22:13:06Z" in _run(archive, "get", rows[1]["key"]).stdout
    keys = ["--start", rows[0]["key"], "--stop", rows[1]["key"], "--columns", "*"]
    assert [row["parsed:n"] for row in _objects(_run(archive, "scan", *keys, "--output", "json"))] == [5]
    broken = _run(archive, "scan", "--where", "`raw:events` = 0").stdout
    assert "\\x1b broken \\xff" in broken


@pytest.mark.usefixtures("in_session")
def test_a_scan_explains_what_it_would_read(archive: Path) -> None:
    options = ["--from", "2023-11-14T22:13:25Z", "--columns", "parsed:n", "--limit", "1", "--explain"]
    text = _run(archive, "scan", *options).stdout
    assert text.startswith("segments   1 of 3, with ")
    assert "PushedFilters: [IsNotNull(`raw:time`), GreaterThanOrEqual(`raw:time`,1700000005000)]" in text
    (plan,) = _objects(_run(archive, "scan", *options, "--output", "json"))
    assert (plan["segments"], plan["columns"]) == (1, ["parsed:n", "raw:time", "key"])


@pytest.mark.usefixtures("in_session")
def test_segments_are_rewritten_and_exported(archive: Path, tmp_path: Path) -> None:
    assert "segments: 3 with 31 rows" in _run(archive, "compact").stdout
    assert _run(archive, "compact", "--major").stdout == "nothing to rewrite\n"
    (done,) = _objects(_run(archive, "split", "2", "--output", "json"))
    assert (done["removed"], done["added"], done["added_rows"]) == (1, 2, 31)
    shown = _run(archive, "export", str(tmp_path / "out")).stdout
    assert shown.startswith(f"{tmp_path}/out/web-1/web/access.log.")
    assert Path(shown.strip()).read_bytes() == json_lines(30) + b"\x1b broken \xff\n"


@pytest.mark.usefixtures("in_session")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scan", "--from", "soon"], "--from 'soon' is no time"),
        (["scan", "--from", "2024-01-01", "--to", "2023-01-01"], "--from 2024-01-01 is not before --to 2023-01-01"),
        (["scan", "--start", "xyz"], "--start 'xyz' is no key"),
        (["scan", "--where", "no such"], "--where no such: Spark: "),
        (["scan", "--columns", "parsed:m"], "no segment has a column parsed:m"),
        (["get", "00ff"], "00ff is no row key"),
        (["export", "out", "--columns", "key"], "--columns is for tables"),
    ],
)
def test_what_cannot_be_asked_is_said(archive: Path, arguments: Sequence[str], said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        _run(archive, *arguments)


@pytest.mark.usefixtures("in_session")
def test_a_torn_segment_is_left_out_by_name(archive: Path) -> None:
    torn = next((archive / "web-1" / "segments").iterdir())
    torn.write_bytes(torn.read_bytes()[:-1])
    with pytest.raises(ElfError, match=rf"{torn.name}: is torn.*--skip-torn$"):
        _run(archive, "scan")
    result = _run(archive, "scan", "--skip-torn", "--output", "json")
    assert f"left out: {torn}: is torn" in result.stderr
    assert 20 <= len(result.stdout.splitlines()) <= 21


@pytest.mark.slow  # by default files are loaded in a local session
def test_a_cluster_loads_files_for_a_command(cluster: SparkCluster, spark: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.json").write_bytes(json_lines(1000, first=1000 * number) + b"broken\n")
    command = [
        sys.executable, "-m", "elf", "batch", "ingest", "--archive", str(tmp_path / "archive"), "--stream", "web",
        "--agent", "web-1", "--master", cluster.master, "--output", "json", str(tmp_path / "*.json"),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    loaded = json.loads(ran.stdout)
    assert (loaded["files"], loaded["rows"], loaded["events"], loaded["malformed"]) == (4, 4004, 4000, 4)
    table = ArchiveTable.open(spark, [str(tmp_path / "archive" / "web-1")])
    assert sorted(row[0] for row in table.scan(columns=["parsed:n"]).dropna().collect()) == [*range(4000)]


def test_every_verb_has_its_help() -> None:
    for verb in VERBS:
        result = CliRunner().invoke(cli, ["batch", verb, "--help"])
        assert result.exit_code == 0
        assert "Examples:" in result.output
