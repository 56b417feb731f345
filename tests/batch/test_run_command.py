"""`elf batch run`: as it is typed, and what it says beside the rows."""

from __future__ import annotations

import json

import pytest
from case_archives import archived_lines
from click.testing import CliRunner

from elf.batch.query.native import NativePlan
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.table.table import ArchiveTable
from elf.cli import cli
from elf.errors import ElfError
from elf.local import LocalOptions, LocalRun, LocalSource

pytestmark = pytest.mark.spark

LINES = [
    *(
        json.dumps({"time": f"2026-01-01T10:00:{second:02}Z", "path": f"/{second % 3}", "ms": second / 4, "n": second})
        for second in range(40)
    ),
    "\x1b broken",
]
BOTH_WAYS = (
    "SELECT path, COUNT(*), SUM(ms), AVG(n) FROM web GROUP BY path WINDOWING 20 SECONDS",
    "SELECT path, COUNT(*), MAX(ms) FROM web WHERE n >= 7 GROUP BY path WINDOWING 15 SECONDS",
)


@pytest.fixture
def archive(tmp_path):
    return archived_lines(tmp_path / "archive", "web", LINES, 0, time_field="time", segments=2)


@pytest.fixture
def run(archive, in_session):  # noqa: ARG001 - the command runs in it
    """Runs the command."""

    def command(*arguments):
        result = CliRunner().invoke(cli, ["batch", "run", *arguments, "--archive", str(archive)])
        if isinstance(result.exception, ElfError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return command


def test_rows_of_each_window_as_csv(run):
    printed = run("SELECT COUNT(*) AS n FROM web WINDOWING 20 SECONDS", "--output", "csv").stdout.splitlines()
    assert printed == [
        "window_start,window_end,n",
        "2026-01-01T10:00:00Z,2026-01-01T10:00:20Z,20",
        "2026-01-01T10:00:20Z,2026-01-01T10:00:40Z,20",
    ]


@pytest.mark.parametrize("text", BOTH_WAYS)
def test_results_are_those_of_elf_local(run, tmp_path, text):
    log = tmp_path / "web.log"
    log.write_text("".join(line + "\n" for line in LINES))
    local = LocalRun(text, [LocalSource("web", (str(log),))], LocalOptions(0, time_field="time")).results()
    found = [json.loads(line) for line in run(text, "--output", "json").stdout.splitlines()]
    assert found == [json.loads(result.to_json()) | {"app": "batch"} for result in local]


def test_times_limit_what_is_counted(run):
    between = ("--from", "2026-01-01T10:00:10Z", "--to", "2026-01-01T10:00:12Z")
    for text in ("SELECT COUNT(*) AS n FROM web", "SELECT COUNT(*) AS n FROM web WHERE LENGTH(path) = 2"):
        (result,) = run(text, *between, "--output", "json").stdout.splitlines()
        assert (json.loads(result)["rows"], json.loads(result)["events"]) == ([{"n": 2}], 2)


def test_explain_says_which_way_and_why(run):
    plan = json.loads(run("SELECT COUNT(*) FROM web GROUP BY path", "--explain", "--output", "json").stdout)
    assert (plan["computed"], plan["because"]) == ("by Spark itself, over stored columns", "")
    assert plan["read"]["segments"] == 2
    assert "HashAggregate" in plan["read"]["spark"]
    said = run("EXPLAIN SELECT path FROM web").stdout
    assert "by agents' code on the lines as they were (it selects events, and aggregates nothing)" in said


def test_within_is_ignored_and_that_is_said(run):
    query = "SELECT path, COUNT(*) FROM web GROUP BY path WINDOWING 20 SECONDS EMIT CHANGES"
    constrained, plain = (run(f"{query}{clause}", "--output", "json") for clause in (" WITHIN 500 MILLISECONDS", ""))
    assert constrained.stdout == plain.stdout
    assert constrained.stderr.splitlines() == [
        "elf batch run: WITHIN is ignored: it is for live jobs, and here windows come when all input is read"
    ]
    explained = run(f"{query} WITHIN 500 MILLISECONDS", "--explain")
    assert "WITHIN is ignored" in explained.stderr
    assert "have 99 % of results" not in explained.stdout


def test_nothing_in_range_is_said(run):
    result = run("SELECT COUNT(*) FROM web WINDOWING 1 SECOND", "--to", "2020-01-01T00:00:00Z")
    assert "no window: no events between --from and --to" in result.output


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT COUNT(*) FROM webs", "there is no stream webs"),
        ("SELECT COUNT(*) FROM app('other')", "an archive has no results of other jobs"),
        ("SELECT COUNT(*) FROM web JOIN table('t') ON web.path = t.path", "there is no table t"),
    ],
)
def test_queries_that_cannot_be_run(run, text, complaint):
    with pytest.raises(ElfError, match=complaint.replace("(", r"\(")):
        run(text)


@pytest.mark.parametrize(
    ("column", "values", "total"),
    [("n", [2**63 - 1, 2**63 - 1], 2**64 - 2), ("x", [1e300, 0.5, -1e300], 0.5), ("x", [1e-300, 0.25], 0.25)],
)
def test_sums_that_spark_cannot_have_exactly_are_exact_all_the_same(spark, tmp_path, column, values, total):
    lines = [json.dumps({column: value}) for value in values]
    table = ArchiveTable.open(spark, [str(archived_lines(tmp_path / "sums", "web", lines, 0))])
    asked = BatchRun(f"SELECT SUM({column}) AS total FROM web", table, BatchOptions())
    assert isinstance(asked.execution_plan, NativePlan)
    (result,) = asked.results()
    assert result.rows[0]["total"] == total


def test_spark_itself_reads_columns_of_any_name(spark, tmp_path):
    lines = [json.dumps({"time": "2026-01-01T10:00:00Z", "a`b c": n % 2}) for n in range(5)]
    archive = archived_lines(tmp_path / "odd", "web", lines, 0, time_field="time")
    run = BatchRun(
        'SELECT "a`b c" AS k, COUNT(*) AS n FROM web GROUP BY k',
        ArchiveTable.open(spark, [str(archive)]),
        BatchOptions(),
    )
    assert isinstance(run.execution_plan, NativePlan)
    assert [dict(row) for result in run.results() for row in result.rows] == [{"k": 0, "n": 3}, {"k": 1, "n": 2}]
