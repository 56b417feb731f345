"""Jobs that have run live over agents that were killed meanwhile, held against the archives of these."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
from campaign import AGENTS, BEFORE_S, ROLE, TOTALS, WINDOWS, Campaign, run_campaign
from watching import milliseconds

from agent.programs.confinement import refusal
from elf.batch.reconcile.recomputation import SparkArchive
from elf.batch.reconcile.reconciliation import reconcile
from elf.batch.reconcile.text import summary, why
from elf.batch.table.table import ArchiveTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,  # reconciling, backfilling and fleets with kills are each tested by default
    pytest.mark.live,
    pytest.mark.spark,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return run_campaign(tmp_path_factory.mktemp("campaign"))


@pytest.fixture
def archive(spark: SparkSession, campaign: Campaign) -> SparkArchive:
    return SparkArchive(ArchiveTable.open(spark, campaign.archives))


@pytest.mark.parametrize("app", [ROLE.app, TOTALS])
def test_every_window_is_equal_or_explained(archive: SparkArchive, campaign: Campaign, app: str) -> None:
    job = archive.live_job(app, None, None)
    judged = reconcile(job, archive)
    told = [(one.window[0], one.verdict, why(one)) for one in judged]
    assert {one.verdict for one in judged} <= {"equal", "explained"}, told
    assert len(judged) >= 6, summary(judged)
    missing = {name for one in judged if one.live is not None for name in one.live.absent}
    assert missing <= set(campaign.killed)
    if app == ROLE.app:
        assert missing == set(campaign.killed)
        assert max(one.version for one in job.results) >= 2
        assert {one.epoch for one in job.results} >= {1, 2}
        starts = sorted({one.start_ms for one in job.results if one.start_ms is not None})
        assert {later - earlier for earlier, later in pairwise(starts)} == {3000}


def test_a_result_that_was_changed_is_caught(archive: SparkArchive) -> None:
    job = archive.live_job(ROLE.app, None, None)
    victim = next(one for one in job.results if one.rows and one.version == 1)
    rows = [{**victim.rows[0], "posts": victim.rows[0]["posts"] + 1}, *victim.rows[1:]]
    (found,) = reconcile(replace(job, results=(msgspec.structs.replace(victim, rows=rows),)), archive)
    assert found.verdict == "unexplained"
    assert (found.difference or "").startswith("row 1: posts is")
    (honest,) = reconcile(replace(job, results=(victim,)), archive)
    assert honest.verdict in ("equal", "explained")


def test_the_past_and_what_is_live_join_without_a_gap(campaign: Campaign) -> None:
    lines = campaign.backfilled
    starts = [milliseconds(line["window_start"]) for line in lines]
    assert starts == list(range(campaign.began_ms, campaign.began_ms + 1000 * WINDOWS, 1000))
    sources = [line.get("source", "live") for line in lines]
    assert sources == sorted(sources)
    assert BEFORE_S <= sources.count("archive") < WINDOWS
    whole = [(start, line) for start, line in zip(starts, lines, strict=True) if line["contributors"] == AGENTS]
    assert len(whole) > BEFORE_S
    for start, line in whole:
        count = bisect_left(campaign.events, start + 1000) - bisect_left(campaign.events, start)
        assert line["rows"] == [{"n": count}], line
