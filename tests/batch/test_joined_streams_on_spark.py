"""Joins of two streams over archives, whose logs lie on different agents, answer what all pairs taken one by one do."""

from __future__ import annotations

import json
import random
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from case_archives import archived_lines
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from paired_streams import CLICKS, JOINS, QUERIES, SERVES, WITHIN_MS, expected
from spark_answers import answers_in_regions, haste, rows_of

from elf.batch.query.explain import explained_run
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.table.table import ArchiveTable as Archive
from elf.cli import cli

pytestmark = pytest.mark.spark

EVERY = [text.format(join) for text in QUERIES for join in JOINS]
ALWAYS = {
    "serves": [{"@time": 300 * number, "serve": number, "ad": "a", "place": "top"} for number in range(3)],
    "clicks": [{"@time": 250 * number, "serve": number, "ad": "a", "price": number} for number in range(4)],
}
BORN_MS = ARRIVAL_MS = 1_750_000_000_000
FEW = settings(
    max_examples=max(1, settings.default.max_examples // 50),
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


def dated(events):
    """The events at times that no parser takes for seconds."""
    return [{**event, "@time": BORN_MS + event["@time"]} for event in events]


def archive_of(spark, folder, serves, clicks):
    """An archive of serves at two agents, and of clicks at a third."""
    halves = {"web-1": serves[::2], "web-2": serves[1::2]}
    stores = [archived("serves", folder / agent, agent, events) for agent, events in halves.items()]
    stores.append(archived("clicks", folder / "click-1", "click-1", clicks))
    return Archive.open(spark, list(map(str, stores)))


def archived(stream, folder, agent, events):
    lines = [json.dumps({"time": event["@time"], **event}) for event in events]
    return archived_lines(folder, stream, lines, ARRIVAL_MS, agent=agent, time_field="time", segments=2)


def shown(rows):
    return sorted(json.dumps(row) for row in rows)


@FEW
@given(serves=SERVES, clicks=CLICKS, texts=st.lists(st.sampled_from(EVERY), min_size=3, max_size=3, unique=True))
def test_a_join_gives_the_rows_of_all_pairs(spark, serves, clicks, texts):
    serves, clicks = dated([*serves, *ALWAYS["serves"]]), dated([*clicks, *ALWAYS["clicks"]])
    with TemporaryDirectory() as name, haste(spark):
        archive = archive_of(spark, Path(name), serves, clicks)
        runs = [BatchRun(text, archive, BatchOptions()) for text in texts]
        for text, results in zip(texts, answers_in_regions(runs), strict=True):
            rows = [list(row.values()) for row in expected(text, serves, clicks, WITHIN_MS)]
            assert shown(rows_of(results)) == shown(rows), text


def test_a_range_of_time_is_of_the_left_events(spark, tmp_path):
    serves = [{"@time": time, "serve": time, "ad": 1} for time in (900, 1_000, 1_999, 2_000)]
    clicks = [{"@time": time + 50, "serve": time, "ad": 1} for time in (900, 1_000, 1_999, 2_000)]
    archive = archive_of(spark, tmp_path, dated(serves), dated(clicks))
    text = f"SELECT serves.serve, COUNT(clicks.ad) AS clicked FROM serves {JOINS[1]} GROUP BY serves.serve"
    run = BatchRun(
        f"{text} ORDER BY serves.serve", archive, BatchOptions(since_ms=BORN_MS + 1_000, until_ms=BORN_MS + 2_000)
    )
    assert rows_of(run.results()) == [[1_000, 1], [1_999, 1]]


def test_a_query_over_the_groups_of_a_join(spark, tmp_path):
    archive = archive_of(spark, tmp_path, dated(ALWAYS["serves"]), dated(ALWAYS["clicks"]))
    groups = f"SELECT serves.serve, COUNT(clicks.ad) AS n FROM serves {JOINS[1]} GROUP BY serves.serve"
    run = BatchRun(f"SELECT COUNT(*) AS groups, SUM(n) AS clicks FROM ({groups})", archive, BatchOptions())
    assert rows_of(run.results()) == [[3, 3]]


def test_explain_says_how_a_join_is_computed(spark, tmp_path):
    archive = archive_of(spark, tmp_path, [{"@time": 1, "serve": 1}], [{"@time": 1, "serve": 1}])
    text = f"SELECT COUNT(*) AS n FROM serves {JOINS[0]}"
    told = explained_run(text, BatchRun(text, archive, BatchOptions())).text()
    assert "joined by Spark" in told
    assert "serves.serve = clicks.serve AND serves.ad = clicks.ad" in told


def logs(seed, seconds):
    """Serves at two servers and clicks at a third, some of them too late, before their serve, or of no serve."""
    chosen = random.Random(seed)
    serves, clicks = [], []
    for number in range(4 * seconds):
        serve = {"@time": BORN_MS + chosen.randrange(1_000 * seconds), "serve": f"s{number}", "ad": f"a{number % 7}"}
        serves.append(serve | {"place": chosen.choice(["top", "side", None])})
        for _ in range(chosen.choice([0, 0, 1, 1, 2])):
            after = chosen.choice([-2_000, 0, 3_000, 5_000, 5_001, 60_000])
            click = {"@time": serve["@time"] + after, "serve": serve["serve"], "ad": serve["ad"], "price": number % 5}
            clicks.append(click | chosen.choice([{}, {}, {}, {"serve": None}, {"ad": "other"}]))
    by_time = itemgetter("@time")
    return sorted(serves, key=by_time), sorted(clicks, key=by_time)


@pytest.mark.usefixtures("in_session")
def test_what_elf_local_printed_is_what_the_archive_gives(spark, tmp_path):
    serves, clicks = logs(7, 20)
    archive_of(spark, tmp_path / "archive", serves, clicks)
    join = "LEFT JOIN clicks WITHIN 5 SECONDS ON serves.serve = clicks.serve AND serves.ad = clicks.ad"
    shows = "serves.place, COUNT(*) AS n, COUNT(clicks.serve) AS clicked, SUM(clicks.price) AS paid"
    text = f"SELECT {shows} FROM serves {join} GROUP BY serves.place WINDOWING 5 SECONDS"
    command = ["local", text, "--agents", "3", "--output", "json", "--time-field", "time"]
    for name, events in (("serves-1", serves[::2]), ("serves-2", serves[1::2]), ("clicks-1", clicks)):
        path = tmp_path / f"{name}.json"
        path.write_text("".join(json.dumps({"time": event["@time"], **event}) + "\n" for event in events))
        command += ["--source", f"{name[:-2]}={path}"]
    local = CliRunner().invoke(cli, command)
    assert local.exit_code == 0, local.output
    rows = [list(row.values()) for line in local.stdout.splitlines() for row in json.loads(line)["rows"]]
    assert shown(rows) == shown([list(row.values()) for row in expected(text, serves, clicks, 5_000)])
    live = tmp_path / "live.jsonl"
    live.write_text(local.stdout)
    compared = ["batch", "reconcile", "local", "--archive", str(tmp_path / "archive"), "--live", str(live)]
    told = CliRunner().invoke(cli, [*compared, "--query", text])
    assert told.exit_code == 0, told.output
    assert "unexplained" not in told.output
    assert "equal" in told.output
