"""The tree's benchmark: equal data and answers for everyone, the issue's targets, and figures that are all drawn."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from seeds import seeds

from benchmarks.cbt import inserts, windows, write_chart
from benchmarks.cbt.hash_maps import compiled, hash_map
from benchmarks.cbt.inserts import GOOGLE, ONE_CORE, SPARSE, TRACKED, TWO_CORES, KeySet, Targets
from benchmarks.cbt.keys import read_keys, write_keys
from benchmarks.cbt.runs import Job, Outcome, Program, Run, measure
from benchmarks.cbt.slate import count_batches, count_events
from benchmarks.cbt.tree_inserts import frames_of, speed
from benchmarks.cbt.window_runs import Recomputation, SlateWindows, SlidingCounts, TreeWindows, run
from benchmarks.contender import Answer
from benchmarks.environment import NotAvailable
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison

KEYS = KeySet("300 keys", 300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cbt")


@pytest.fixture(scope="module")
def with_compiler(folder: Path) -> None:
    try:
        compiled(folder)
    except NotAvailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("keys", [KEYS, KeySet("as many as inserts", 2_000), KeySet("Zipf", None)])
def test_a_file_of_keys_holds_what_it_says(tmp_path: Path, keys: KeySet) -> None:
    first, again = (write_keys(tmp_path / name, keys, 2_000) for name in ("a", "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    counts = np.unique(read_keys(tmp_path / "a"), return_counts=True)[1]
    assert first == again == Answer.of(counts.tolist())
    assert first.total == 2_000
    assert first.rows == (keys.unique or first.rows)


def test_tree_and_slates_count_alike(tmp_path: Path) -> None:
    expected = write_keys(tmp_path / "keys", KEYS, 2_000)
    keys = read_keys(tmp_path / "keys")
    strings = keys.astype(str).tolist()
    assert speed(frames_of(keys)).answer == expected
    assert Answer.of(list(count_events(strings).values())) == expected
    assert count_batches(strings) == count_events(strings)


@pytest.mark.usefixtures("with_compiler")
@pytest.mark.parametrize("name", seeds(slow=["sparse", "sparse-string", "dense", "unordered"]))
def test_every_hash_map_counts_and_tracks_its_bytes(folder: Path, tmp_path: Path, name: str) -> None:
    data = tmp_path / "keys"
    expected = write_keys(data, KEYS, 2_000)
    program = hash_map("map", name, folder)
    jobs = [Job(program, (how, str(data)), expected) for how in ("speed", "memory")]
    fast, small = (outcome.figures for outcome in measure(jobs, rounds=1))
    assert fast["seconds"] > 0
    assert 300 * (13 + 8) < small["tracked_bytes"] < 300 * 400


@pytest.mark.slow
@pytest.mark.usefixtures("with_compiler")
def test_a_whole_comparison_of_little_data() -> None:
    extent = inserts.Extent(2_000, ((KEYS, Targets(1e-9, 1e9, 1e-9)),), rounds=1)
    lines = {(line.case, line.rival): line for line in inserts.run(extent)}
    assert len(lines) == 6 + 3 + 2 * 3
    verdicts = [lines[f"{label}: {KEYS.name}", SPARSE].met for label in (ONE_CORE.name, TWO_CORES.name, TRACKED)]
    assert verdicts == [True, False, True]
    assert all(line.ratio is not None and line.ratio > 0 for line in lines.values())


def test_the_targets_are_those_against_sparse_hash_map() -> None:
    rivals = (*GOOGLE, inserts.UNORDERED, inserts.PER_EVENT, inserts.PER_BATCH)
    found = dict.fromkeys((ONE_CORE.name, TWO_CORES.name, *rivals), Outcome({"seconds": 1.0}))
    bytes_ = dict.fromkeys((ONE_CORE.name, *GOOGLE), Outcome({"tracked_bytes": 1.0, "resident_bytes": 1.0}))
    aims: dict[str, list[float]] = {}
    for keys, targets in inserts.FULL.cases:
        lines = inserts.compare_speed(keys.name, 1, found, targets)
        lines += inserts.compare_memory(keys.name, 1, bytes_, targets)
        aimed = [line for line in lines if line.target is not None]
        assert {line.rival for line in aimed[:3]} == {SPARSE}
        aims[keys.name] = [round(line.target or 0, 2) for line in aimed]
    assert aims == {
        "10⁵ keys": [2.0, 2.0, 0.67],
        "10⁶ keys": [1.6, 2.7, 2.0, 24.0],
        "4·10⁶ keys": [2.4, 3.3, 2.0],
        "10⁷ keys": [3.0, 4.0, 2.0, 21.0],
        "Zipf 1.2": [1.9, 2.7, 0.67],
    }


def test_a_map_that_was_not_compiled_is_named_and_counts_as_not_met() -> None:
    found = {ONE_CORE.name: Outcome({"tracked_bytes": 9.0, "resident_bytes": 9.0})}
    found |= dict.fromkeys(GOOGLE, Outcome({}, "no C++ compiler"))
    first = inserts.compare_memory("case", 1, found, inserts.FULL.cases[0][1])[0]
    assert (first.rival, first.ratio, first.met) == (f"{SPARSE} (not run: no C++ compiler)", None, False)


def test_without_a_compiler_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    jobs = [Job(hash_map(SPARSE, "sparse", tmp_path), ("speed", "keys"), Answer(0, 0, 0))]
    assert measure(jobs, rounds=2) == [Outcome({}, "no C++ compiler")]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('{}')", "no figures: {}"),
        ('print(\'{"answer": {"rows": 2, "total": 2, "squares": 2}, "figures": {}}\')', "wrong found .+, not"),
        ("raise SystemExit('broken')", "wrong failed with exit code 1: broken"),
    ],
)
def test_a_program_that_goes_wrong_is_an_error(code: str, message: str) -> None:
    program = Program("wrong", lambda: [sys.executable, "-c", code])
    with pytest.raises(BenchmarkError, match=f"^{message}"):
        measure([Job(program, (), Answer(1, 1, 1))], rounds=1)


def test_the_median_of_the_rounds_counts(tmp_path: Path) -> None:
    log = tmp_path / "rounds"
    code = (
        f"log = open({str(log)!r}, 'a+'); log.write('x'); log.seek(0)\n"
        "seconds = {1: 9, 2: 1, 3: 2}[len(log.read())]\n"
        'print(\'{"answer": {"rows": 1, "total": 1, "squares": 1}, "figures": {"seconds": %d}}\' % seconds)'
    )
    program = Program("slow at first", lambda: [sys.executable, "-c", code])
    assert measure([Job(program, (), Answer(1, 1, 1))], rounds=3) == [Outcome({"seconds": 2.0})]


@pytest.mark.parametrize("way", [TreeWindows, SlateWindows, Recomputation])
@pytest.mark.parametrize("panes", [1, 3])
def test_sliding_windows_count_what_is_in_them(
    tmp_path: Path, way: Callable[[int], SlidingCounts[Any]], panes: int
) -> None:
    extent = windows.Extent(100, 40, (panes * 10,), 1)
    numbers = windows._write_stream(tmp_path / "keys", extent)
    found: Run = run(way(panes), read_keys(tmp_path / "keys"), panes, 100)
    assert found.answer == windows._expected(numbers, panes, 100)
    assert found.answer.total == 10 * panes * 100
    assert found.figures["work_ms"] >= found.figures["result_ms"] > 0


@pytest.mark.slow
def test_windows_are_compared_and_their_growth_has_a_target() -> None:
    lines = windows.run(windows.Extent(100, 40, (30,), 1), with_targets=True)
    assert [line.rival for line in lines] == [*(rival.name for rival in windows.RIVALS)] * 2 + [None, None]
    assert [(line.value, line.target, line.met) for line in lines[4:]] == [(1.0, 1.5, True)] * 2


def test_the_chart_draws_every_panel_and_leaves_out_who_was_not_run(tmp_path: Path) -> None:
    labels = (ONE_CORE.name, TWO_CORES.name, TRACKED, windows.RESULT, windows.WORK)
    lines = [
        Comparison("cbt", f"{label}: {place}", value, "x", rival, rival_value)
        for label in labels
        for place, value in (("a", 1.0), ("b < c", 20.0))
        for rival, rival_value in (("ran", 3.0), ("did not", None))
    ]
    write_chart(lines, tmp_path / "cbt.svg")
    svg = ElementTree.parse(tmp_path / "cbt.svg")
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("ran") == 4
    assert texts.count("b < c") == 4
    assert set(labels) < set(texts)
    assert "did not" not in texts
