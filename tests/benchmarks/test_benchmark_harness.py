"""The benchmarks' own machinery: an honest verdict, equal answers, equal data."""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from seeds import seeds

from benchmarks import local
from benchmarks.chart import write_chart
from benchmarks.contender import Answer, parse
from benchmarks.environment import NotAvailable
from benchmarks.events import write_shop_events
from benchmarks.fleet_windows import Printed
from benchmarks.processes import cpu_s, usage
from benchmarks.race import BenchmarkError, Contender, Outcome, race
from benchmarks.replay import Replay
from benchmarks.report import throughput, within, write_json


def own_python() -> Path:
    return Path(sys.executable)


def unavailable() -> None:
    raise NotAvailable("no Java")


POLARS = Contender("Polars", "benchmarks.rivals.polars_scan", python=own_python)


@pytest.mark.parametrize(
    ("rival_value", "target", "ratio", "met"),
    [(2.0, 0.5, 0.5, True), (2.1, 0.5, 1 / 2.1, False), (None, 0.5, None, False), (4.0, None, 0.25, None)],
)
def test_a_target_is_met_only_by_a_measured_ratio(
    rival_value: float | None, target: float | None, ratio: float | None, met: bool | None
) -> None:
    line = throughput("local", "case", 1.0, "M events/s", "rival", rival_value, target)
    assert line.ratio == pytest.approx(ratio) if ratio else line.ratio is None
    assert line.met is met


def test_a_report_is_one_object_a_line_with_the_agreed_fields(tmp_path: Path) -> None:
    path = tmp_path / "results" / "local.json"
    write_json([throughput("local", "case", 1.0, "M events/s", "rival", 2.0, 0.5)] * 2, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    fields = ["benchmark", "case", "value", "unit", "rival", "rival_value", "ratio", "target", "met"]
    assert [list(line) for line in lines] == [fields] * 2


def test_a_chart_has_a_bar_for_everyone_who_ran(tmp_path: Path) -> None:
    lines = [
        throughput("local", "a < b", 1.0, "M events/s", "Polars & co", 2.0, 0.5),
        throughput("local", "a < b", 1.0, "M events/s", "Spark (not run: no Java)", None, 5.0),
    ]
    write_chart(lines, tmp_path / "local.svg")
    texts = [text.text for text in ElementTree.parse(tmp_path / "local.svg").iter("{http://www.w3.org/2000/svg}text")]
    shown = ["a < b", "ELF", "1 M events/s", "Polars & co", "2 M events/s", "Spark (not run: no Java)"]
    assert texts == shown


def test_the_same_seed_makes_the_same_events(tmp_path: Path) -> None:
    first, again = (write_shop_events(tmp_path / name, 2_000, files=3) for name in ("a", "b"))
    assert [path.read_bytes() for path in first.paths] == [path.read_bytes() for path in again.paths]
    assert 280 < first.event_bytes < 300
    events = [json.loads(line) for path in first.paths for line in path.read_text().splitlines()]
    assert len(events) == len({event["id"] for event in events}) == first.events == 2_000
    assert {event["created_at"][:15] for event in events} == {"2026-03-02T12:0"}


def test_contenders_run_in_turn_and_must_agree(tmp_path: Path) -> None:
    write_shop_events(tmp_path, 2_000)
    duckdb = Contender("DuckDB", "benchmarks.rivals.duckdb_scan", python=own_python)
    java = Contender("Spark", "benchmarks.rivals.spark_stream", python=own_python, check=unavailable)
    outcomes = race([POLARS, duckdb, java], tmp_path, rounds=1, warm_ups=0)
    assert outcomes["Spark"] == Outcome(None, "no Java")
    assert all((outcomes[name].seconds or 0) > 0 for name in ("Polars", "DuckDB"))


def test_contenders_that_disagree_are_an_error(tmp_path: Path) -> None:
    write_shop_events(tmp_path, 100)
    wrong = Contender("Wrong", "tests.benchmarks.wrong_rival", python=own_python)
    with pytest.raises(BenchmarkError, match="Wrong and Polars disagree"):
        race([POLARS, wrong], tmp_path, rounds=1, warm_ups=0)


def test_a_contender_that_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "events.json").write_text("{]\n")
    with pytest.raises(BenchmarkError, match=r"^Polars failed with exit code 1: .+"):
        race([POLARS], tmp_path, rounds=1, warm_ups=0)


def test_a_rival_that_was_not_run_stays_in_the_table(tmp_path: Path) -> None:
    data, case = write_shop_events(tmp_path, 100), local.CASES["sums"]
    outcomes = {rival.name: Outcome(None, "no Java") for rival, _ in case.rivals}
    lines = local._compare(case, data, outcomes | {case.elf.name: Outcome(0.5)}, with_targets=True)
    assert [line.met for line in lines] == [False] * len(case.rivals)
    assert lines[1].rival == "Spark Structured Streaming local[2] (not run: no Java)"


@pytest.mark.parametrize("name", seeds("sums", slow=[name for name in local.CASES if name != "sums"]))
def test_all_who_run_in_a_case_agree(name: str, tmp_path: Path) -> None:
    case = local.CASES[name]
    data = case.write(tmp_path, 2_000)
    here = [case.elf, *(rival for rival, _ in case.rivals if any(word in rival.name for word in ("Polars", "Python")))]
    contenders = [replace(one, python=own_python) for one in here]
    outcomes = race(contenders, tmp_path, rounds=1, warm_ups=0)
    lines = local._compare(
        case, data, outcomes | {rival.name: Outcome(1.0) for rival, _ in case.rivals}, with_targets=True
    )
    assert len(lines) == len(case.rivals) + (case.rate_target is not None)
    assert all((outcome.seconds or 0) > 0 for outcome in outcomes.values())


def test_answers_differ_when_sums_are_grouped_differently() -> None:
    assert Answer.of([1, 4]) != Answer.of([2, 3])
    assert Answer.of([1, 4]) == Answer.of([4, 1])


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"seconds": 1, "answer": {"rows": 1}}', '{"seconds": null}'])
def test_what_is_no_measurement_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting value|not a measurement"):
        parse(line)


@pytest.mark.parametrize(("value", "target", "met"), [(19.9, 20.0, True), (20.1, 20.0, False), (5.0, None, None)])
def test_a_figure_without_rival_may_not_exceed_its_target(value: float, target: float | None, met: bool | None) -> None:
    line = within("fleet", "start", value, "s", target)
    assert (line.met, line.rival, line.ratio) == (met, None, None)


def test_a_chart_shows_the_most_a_figure_may_be(tmp_path: Path) -> None:
    write_chart([within("fleet", "start", 12.0, "s", 20.0), within("fleet", "p50", 90.0, "ms")], tmp_path / "fleet.svg")
    texts = [text.text for text in ElementTree.parse(tmp_path / "fleet.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["start", "ELF", "12 s", "at most", "20 s", "p50", "ELF", "90 ms"]


def test_a_replay_writes_whole_events_of_now_at_its_rate(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    began = datetime.now(UTC)
    with Replay(tmp_path / "sample", paths, rate=50_000) as replay:
        wait_until(lambda: replay.written > 20_000)
    took_s = (datetime.now(UTC) - began).total_seconds()
    events = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    assert len(events) == replay.written <= 50_000 * took_s
    moments = [datetime.fromisoformat(event["created_at"]) for event in events]
    assert began - timedelta(milliseconds=1) <= min(moments) <= max(moments) <= datetime.now(UTC)


def test_lateness_is_what_comes_on_top_of_window_and_grace() -> None:
    printed = Printed()
    window = {"window_end": "1970-01-01T00:00:10Z", "events": 7, "contributors": 2, "expected": 2, "partial": [],
              "late": 0}  # fmt: skip
    printed.take(json.dumps(window).encode(), 15.25)
    printed.take(json.dumps(window | {"contributors": 1, "late": 3}).encode(), 15.5)
    assert printed.late_ms == [250.0, 500.0]
    assert (printed.events, printed.incomplete, printed.late_events) == (14, 1, 3)
    assert printed.percentile_ms(50) == 375.0


def test_usage_is_that_of_the_process() -> None:
    used = usage(os.getpid())
    assert 5 < used.memory_mb <= used.memory_peak_mb < 10_000
    assert cpu_s([os.getpid()]) >= used.cpu_s > 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
