"""Reconcile and backfill over an archive on Spark: of the agents' own streams, and of the results beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from live_world import BORN_MS, COUNT, STREAM, Event, published, shop_logs, version
from stores_made import add_segment

from elf.batch.backfill.backfill import Backfill
from elf.batch.reconcile.recomputation import SparkArchive
from elf.batch.reconcile.reconciliation import reconcile
from elf.batch.table.table import ArchiveTable
from elf.cli import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The archives of three agents."""
    for number, (agent, log) in enumerate(shop_logs().items()):
        add_segment(tmp_path / agent, lines_of(log), stream=STREAM, agent=agent, file_id=number)
    return tmp_path


def lines_of(events: Iterable[Event]) -> bytes:
    return "".join(f"{json.dumps(event)}\n" for event in events).encode()


def note_down(shop: Path, lines: Iterable[bytes]) -> None:
    """Results published by masters on the first agent."""
    timed = [b'{"time":"2023-11-14T22:13:30Z",' + line[1:] + b"\n" for line in lines]
    add_segment(shop / "agent-1", b"".join(timed), stream="@results", agent="agent-1", file_id=99)


def archive(spark: SparkSession, shop: Path) -> SparkArchive:
    return SparkArchive(ArchiveTable.open(spark, [str(shop)]))


def test_windows_are_computed_again_of_those_who_were_there(spark: SparkSession, shop: Path) -> None:
    logs = shop_logs()
    whole, parts = published(version(), logs), published(version(), logs, absent=["agent-3"])
    note_down(shop, [*whole[:6], *parts[6:9], *whole[9:]])
    seen = archive(spark, shop)
    job = seen.live_job("shop", None, None)
    judged = reconcile(job, seen)
    assert Counter(one.verdict for one in judged) == {"equal": 7, "explained": 3}
    assert {one.reasons for one in judged if one.reasons} == {("missing: agent-3; equal without them",)}
    some = seen.live_job("shop", BORN_MS + 2000, BORN_MS + 5000)
    assert len(some.results) == 3
    assert seen.live_job("elsewhere", None, None).results == ()


def test_a_corrupted_result_in_the_archive_is_caught(spark: SparkSession, shop: Path) -> None:
    lines = published(version(), shop_logs())
    corrupted = json.loads(lines[5])
    corrupted["rows"][2]["n"] += 1
    note_down(shop, [*lines[:5], json.dumps(corrupted).encode(), *lines[6:]])
    seen = archive(spark, shop)
    judged = reconcile(seen.live_job("shop", None, None), seen)
    assert [one.verdict for one in judged].index("unexplained") == 3
    assert Counter(one.verdict for one in judged) == {"equal": 9, "unexplained": 1}


def test_what_was_not_published_is_filled_in(spark: SparkSession, shop: Path) -> None:
    logs = shop_logs()
    second = version(
        "SELECT COUNT(*) AS n FROM events WINDOWING 1 SECOND", 2, starts=BORN_MS + 6000, after=BORN_MS + 5000
    )
    first, then = published(version(), logs), published(second, logs)
    note_down(shop, [*first[:2], *first[4:6], then[0], *then[8:]])
    filling = Backfill(spark, [str(shop)], "shop", None, None)
    found = [json.loads(line) for line in filling.missing_lines()]
    whole = {(line["window_start"], 1): line["rows"] for line in map(json.loads, first[2:])}
    assert [(one["window_start"], one["version"]) for one in found] == [list(whole)[number] for number in (0, 1, 4, 5)]
    assert [one["rows"] for one in found] == [whole[one["window_start"], 1] for one in found]
    assert {one["source"] for one in found} == {"archive"}
    assert {(one["contributors"], one["expected"]) for one in found} == {(3, 3)}


@pytest.mark.usefixtures("in_session")
def test_the_command_tells_by_its_exit_code_and_writes_a_report(shop: Path, tmp_path: Path) -> None:
    lines = published(version(), shop_logs())
    results: list[dict[str, Any]] = [json.loads(line) for line in lines[2:]]
    results[4]["rows"][0]["n"] += 1
    live, page = tmp_path / "live.jsonl", tmp_path / "page.html"
    live.write_text("".join(json.dumps({k: v for k, v in one.items() if k != "kind"}) + "\n" for one in results))
    words = ["reconcile", "shop", "--archive", str(shop), "--live", str(live), "--query", COUNT, "--html", str(page)]
    done = CliRunner().invoke(cli, ["batch", *words, "--output", "json"], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 1)
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()].index("unexplained") == 4
    assert "circle" in page.read_text()
    fine = CliRunner().invoke(cli, ["batch", *words, "--to", "2023-11-14T22:13:24Z"], standalone_mode=False)
    assert (fine.exception, fine.return_value) == (None, 0)
    nothing = CliRunner().invoke(cli, ["batch", "reconcile", "shop", "--archive", str(shop)], standalone_mode=False)
    assert "has no window of shop" in str(nothing.exception)


@pytest.mark.usefixtures("in_session")
def test_the_command_fills_in_what_was_not_published(shop: Path) -> None:
    lines = published(version(), shop_logs())
    note_down(shop, [*lines[:4], *lines[9:]])
    words = ["backfill", "shop", "--archive", str(shop), "--output", "json"]
    done = CliRunner().invoke(cli, ["batch", *words], standalone_mode=False)
    assert done.exception is None
    assert [json.loads(line)["window_start"] for line in done.stdout.splitlines()] == [
        json.loads(line)["window_start"] for line in lines[4:9]
    ]
