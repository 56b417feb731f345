"""Queries with KEYED BY over archives: computed as without, since nothing has to travel, held against a fleet's."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from case_archives import archived_lines
from click.testing import CliRunner
from spark_answers import rows_of

import query
from elf.batch.query.explain import explained_run
from elf.batch.query.native import NativePlan
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.reconcile.live_results import VersionLine
from elf.batch.reconcile.reconciliation import why_not_computable
from elf.batch.table.table import ArchiveTable as Archive
from elf.cli import cli

pytestmark = pytest.mark.spark

BORN_MS = 1_750_000_000_000
KEYED = " KEYED BY user GROUPING pkg OVER 3 WORKERS"
QUERIES = [
    "SELECT path, COUNT(*) AS n, SUM(bytes) AS s FROM web{} WHERE bytes > 10 GROUP BY path ORDER BY path",
    "SELECT COUNT(*) AS n, MAX(bytes) AS most FROM web{}",
    "SELECT user, COUNT(DISTINCT path) AS n FROM web{} GROUP BY user HAVING n > 1 ORDER BY n DESC, user LIMIT 3",
    "SELECT window_start, COUNT(*) AS n FROM web{} WHERE bytes > 60 WINDOWING 1 SECOND",
    "SELECT user, path, bytes FROM web{} WHERE bytes > 90 ORDER BY bytes, user, path LIMIT 5",
]


def hits(seed):
    chosen = random.Random(seed)
    return [
        {"time": BORN_MS + 20 * number, "user": chosen.choice(["hot", "hot", f"u{number % 9}", None]), "n": number % 7}
        | {"path": chosen.choice("ab"), "bytes": chosen.randrange(100)}
        for number in range(200)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("archives")
    events = hits(7)
    for agent, some in (("web-1", events[::2]), ("web-2", events[1::2])):
        lines = [json.dumps(event) for event in some]
        archived_lines(made / agent, "web", lines, BORN_MS, agent=agent, time_field="time", segments=2)
    return made


@pytest.fixture
def archive(spark, folder):
    return Archive.open(spark, [str(folder / "web-1"), str(folder / "web-2")])


@pytest.mark.parametrize("text", QUERIES)
def test_it_is_computed_as_without_the_clause(archive, text):
    plain, keyed = (BatchRun(text.format(clause), archive, BatchOptions()) for clause in ("", KEYED))
    assert type(keyed.execution_plan) is type(plain.execution_plan)
    assert rows_of(keyed.results()) == rows_of(plain.results())


def test_spark_computes_groups_natively_and_explain_shows_no_exchange(archive):
    text = QUERIES[0].format(KEYED)
    run = BatchRun(text, archive, BatchOptions())
    assert isinstance(run.execution_plan, NativePlan)
    told = explained_run(text, run).text()
    assert "by Spark itself" in told
    assert "exchange" not in told


def test_a_job_with_the_clause_can_be_reconciled(archive):
    plan = BatchRun(QUERIES[0].format(KEYED), archive, BatchOptions()).plan
    told = dict.fromkeys(("app", "app_id", "creator", "text"), "")
    line = VersionLine(**told, born_ms=0, version=1, after=0, starts=0, plan=plan.to_wire(), grace_ms=0)
    assert query.keyed_stream(plan) is not None
    assert why_not_computable(line) is None


@pytest.mark.usefixtures("in_session")
def test_what_elf_local_printed_is_what_the_archive_gives(folder, tmp_path):
    text = "SELECT path, COUNT(*) AS n, SUM(bytes) AS s FROM web KEYED BY user WHERE bytes > 10 GROUP BY path"
    text += " WINDOWING 1 SECOND"
    events, command = hits(7), ["local", text, "--agents", "3", "--output", "json", "--time-field", "time"]
    for number in range(2):
        path = tmp_path / f"web-{number}.json"
        path.write_text("".join(json.dumps(event) + "\n" for event in events[number::2]))
        command += ["--source", f"web={path}"]
    local = CliRunner().invoke(cli, command)
    assert local.exit_code == 0, local.output
    live = tmp_path / "live.jsonl"
    live.write_text(local.stdout)
    compared = ["batch", "reconcile", "local", "--archive", str(folder), "--live", str(live), "--query", text]
    told = CliRunner().invoke(cli, compared)
    assert told.exit_code == 0, told.output
    assert "unexplained" not in told.output
    assert "equal" in told.output
