"""The benchmark of groupings: its streams, its figures, and that agents' own groupings make them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from elf_process import elf
from seeds import slowly

import benchmarks.fish
from agent.grouping import fish, published
from benchmarks.fish import changes, in_flight, parameters, speeds, with_means
from benchmarks.fish.figures import FULL, QUICK, QUICK_NAMES
from benchmarks.fish.full_load import sizes, whole
from benchmarks.fish.lines import less
from benchmarks.fish.runs import CONTENDERS, at_full_load
from benchmarks.fish.streams import RETAIL, ZIPF_KEYS, Rows, Stream, real_streams, zipf
from benchmarks.report import Comparison

SHORT = zipf(1.4, 10_000)


def values(lines: list[Comparison], label: str, rival: str | None = None) -> list[float]:
    return [line.value if rival is None else line.rival_value or 0.0 for line in lines
            if line.case.startswith(label) and line.rival == rival]  # fmt: skip


def test_ranks_of_zipf_streams_turn_round_and_runs_have_other_keys() -> None:
    rows = zipf(2.0, 100_000).rows_of_run(0)
    early, late = (np.bincount(rows.keys[part], minlength=ZIPF_KEYS) for part in (slice(80_000), slice(80_000, None)))
    assert 0.58 < early.max() / 80_000 < 0.63
    assert 0.58 < late.max() / 20_000 < 0.63
    assert early[late.argmax()] == late[early.argmax()] == 0
    assert len(np.unique(rows.hashes)) == len(np.unique(rows.keys))
    again, other = zipf(2.0, 100_000).rows_of_run(0), zipf(2.0, 100_000).rows_of_run(1)
    assert (rows.hashes == again.hashes).all()
    assert np.bincount(other.keys).argmax() != early.argmax()


def test_the_benchmark_defines_no_grouping() -> None:
    for path in Path(benchmarks.fish.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, ast.FunctionDef) or node.name not in ("assign", "_assign")
            assert not isinstance(node, ast.ClassDef) or not node.bases


@pytest.mark.parametrize(("module", "name"), [(fish, "fish"), (published, "published")])
def test_another_threshold_in_the_room_of_groupings_changes_the_figures(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    rows = SHORT.rows_of_run(0)
    before = at_full_load(rows, 128, CONTENDERS[name])
    if name == "fish":
        monkeypatch.setattr(module, "HOT_DIVISOR", 0.5)
    else:
        monkeypatch.setattr(published.FishOptions, "__init__", _with_high_threshold)
    after = at_full_load(rows, 128, CONTENDERS[name])
    assert after.entries != before.entries
    assert after.makespan > before.makespan


def _with_high_threshold(options: published.FishOptions) -> None:
    object.__setattr__(options, "divisor", 0.5)


def test_whole_figures_are_about_the_even_deal_and_one_worker_a_key() -> None:
    lines = whole(SHORT, 1)
    (ours,) = values(lines, "makespan over an even deal's")
    (one,) = values(lines, "makespan over an even deal's", "fields")
    assert 1.0 <= ours < one
    assert 20 < one < 128 * 0.4
    (memory,) = values(lines, "entries over one worker a key's")
    assert 1.0 <= memory < values(lines, "entries over one worker a key's", "shuffle")[0]
    assert values(lines, "p50 wait", "shuffle")[0] <= values(lines, "p99 wait", "shuffle")[0] < 3
    assert [line.case.rpartition(": ")[2] for line in sizes(SHORT, (16,), 1)] == ["16 workers"] * 6


def test_means_are_taken_over_zipf_streams_alone() -> None:
    label = "mean wait at full load, 128 workers"
    lines = [less(f"{label}: {place}", 1.0, "", "wchoices", rival) for place, rival in
             (("zipf 1.0", 2.0), ("zipf 2.0", 8.0), ("wiki users", 99.0))]  # fmt: skip
    (mean,) = [line for line in with_means(with_means(lines)) if "geometric" in line.case]
    assert (mean.value, mean.target, mean.met) == (pytest.approx(4.0), 2.0, True)


def test_workers_that_come_and_go_change_few_keys_on_the_ring() -> None:
    lines = changes.run(SHORT, 1)
    ring = [line for line in lines if line.rival is None and line.case.startswith("entries over")]
    anew = values(lines, "entries over those without a change", changes.ANEW)
    assert [round(line.value, 1) for line in ring] == [1.0, 1.0]
    assert min(anew) > max(line.value for line in ring)


def test_all_other_figures_have_their_lines() -> None:
    few = Stream("few", lambda run: Rows(*(one[:3_000] for one in _columns(run)), 4), False)
    assert {line.rival for line in speeds.run(few, 1)} == {speeds.COUNTS, "published", "wchoices"}
    throughputs = in_flight.run(few)
    assert {line.rival for line in throughputs} == set(CONTENDERS) - {"fish"}
    assert all(0 < line.value <= 1.05 for line in throughputs)
    places = {line.case.rpartition(": ")[2] for line in parameters.run(few, 1)}
    assert places == set(parameters.OPTIONS)


def _columns(run: int) -> tuple[np.ndarray, np.ndarray]:
    rows = SHORT.rows_of_run(run)
    return rows.hashes, rows.keys


def test_every_figure_has_a_name_of_its_own_and_quick_ones_are_among_them() -> None:
    names = [figure.name for figure in FULL]
    assert len(names) == len(set(names))
    assert {figure.name for figure in QUICK} <= set(names)
    if any(real_streams()):
        assert {figure.name for figure in QUICK} == set(QUICK_NAMES)


@pytest.mark.parametrize(
    ("name", "log", "key"),
    [("wiki users", "wiki/edits.json.gz", "user"), *slowly([("retail stock codes", RETAIL, "StockCode")])],
)
def test_the_command_prints_the_benchmarks_figures_of_a_real_log(
    real_logs: Path, name: str, log: str, key: str
) -> None:
    stream = next((one for one in real_streams() if one.name == name), None)
    if stream is None:
        pytest.skip("the benchmark finds no real logs: set ELF_REAL_LOGS")
    (printed,) = elf("grouping", str(real_logs / log), "--key", key,
                     "--workers", "128", "--output", "json").results  # fmt: skip
    lines = whole(stream, 1)
    figures = {one["grouping"]: one for one in printed["groupings"]}
    assert values(lines, "makespan")[0] == pytest.approx(figures["fish"]["time"], abs=0.001)
    assert values(lines, "makespan", "pkg")[0] == pytest.approx(figures["pkg"]["time"], abs=0.001)
    assert values(lines, "entries over one")[0] == figures["fish"]["memory"]
    assert values(lines, "p99 wait", "wchoices")[0] == pytest.approx(figures["wchoices"]["p99"], rel=0.01)
