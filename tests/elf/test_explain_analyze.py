"""EXPLAIN over files: a tree of places, and with ANALYZE what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elf.errors import UsageError
from elf.local import LocalOptions, LocalSource
from elf.output.view import View, ViewLimits
from elf.statements.backend import run_statement
from elf.statements.file_backend import FileBackend

QUERY = (
    "SELECT LOWER(path) AS p, SUM(n) FROM logs WHERE n > 2 - 2 AND LOWER(path) LIKE '%b%' GROUP BY p HAVING p <> 'x'"
)


@pytest.fixture
def files(tmp_path: Path) -> FileBackend:
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps({"path": f"/B{n % 3}", "n": n}) + "\n" for n in range(10)) + "{\n")
    return FileBackend([LocalSource("logs", (str(path),))], LocalOptions(arrival_ms=0, agents=2))


def said(files: FileBackend, text: str, output: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_statement(text, files, View(output), ViewLimits()) == 0
    return capsys.readouterr().out


def test_a_tree_of_places_from_the_result_down_to_the_logs(
    files: FileBackend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    out = said(files, f"EXPLAIN {QUERY} TREES 3", "table", capsys)
    tree = out[out.index("at the master") :]
    places = ["at the master", "at the partition roots", "over the network", "in the tree", "in the agent"]
    assert [tree.index(place) for place in places] == sorted(tree.index(place) for place in places)
    for words in (
        "constants is computed once", "HAVING's conditions on keys", "3 of them", "bytes and 2 of any length a group",
        "keep events WHERE n > 0", "AND LOWER(path) <> 'x'", "LOWER(path) LIKE '%b%'", "for each event: LOWER(path)",
    ):  # fmt: skip
        assert words in out
    assert "measured" not in out


def test_analyze_runs_it_and_says_what_was_not_measured(files: FileBackend, capsys: pytest.CaptureFixture[str]) -> None:
    explained = json.loads(said(files, f"EXPLAIN ANALYZE {QUERY}", "json", capsys))
    figures = explained["analyzed"]["measured"]
    assert (figures["windows"], figures["events"], figures["malformed lines"], figures["rows shown"]) == (1, 10, 1, 3)
    assert figures["bytes read"] > 100
    assert figures["seconds in all"] >= figures["seconds in the agents: conditions, expressions, aggregation"] > 0
    assert any("network" in what or "bytes between agents" in what for what in explained["analyzed"]["not_measured"])
    table = said(files, f"EXPLAIN ANALYZE {QUERY}", "table", capsys)
    assert "rows shown" in table
    assert "not measured: " in table


def test_windows_of_several_sizes_are_planned_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two hours, as figure 7 of Enorm has it: 86 states an hour instead of 240."""
    path = tmp_path / "a.json"
    path.write_text(
        "".join(json.dumps({"time": 1_699_920_000_000 + 60_000 * minute, "path": "/a"}) + "\n" for minute in range(120))
    )
    files = FileBackend([LocalSource("logs", (str(path),))], LocalOptions(arrival_ms=0, time_field="time", agents=2))
    windows = ", ".join(f"{size} MINUTES" for size in (1, 5, 10, 15, 20))
    query = f"SELECT path, MAX(path) AS most FROM logs GROUP BY path WINDOWING {windows}"
    explained = json.loads(said(files, f"EXPLAIN ANALYZE {query}", "json", capsys))
    assert "merge 86 states in 1 h, not the 240 panes that windows have" in explained["master"]
    figures = explained["analyzed"]["measured"]
    assert figures["panes of windows of several"] == 2 * 240
    assert figures["states merged for these windows"] == 2 * 86


def test_agents_send_a_state_for_each_edge_of_a_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 70 minutes each agent sends 16, not 70: panes of a minute between two edges are in the same windows."""
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        times = (1_699_920_000_000 + 60_000 * minute for minute in range(70))
        path.write_text("".join(json.dumps({"time": time, "path": "/a"}) + "\n" for time in times))
    source = LocalSource("logs", tuple(map(str, paths)))
    files = FileBackend([source], LocalOptions(arrival_ms=0, time_field="time", agents=2))
    found = {}
    for windows in ("7 MINUTES, 10 MINUTES", "1 MINUTE, 7 MINUTES, 10 MINUTES"):
        query = f"SELECT path, COUNT(*) AS n FROM logs GROUP BY path WINDOWING {windows}"
        found[windows] = json.loads(said(files, f"EXPLAIN ANALYZE {query}", "json", capsys))["analyzed"]["measured"]
    few, many = found.values()
    assert (few["states that agents have sent"], few["rows of these states"]) == (2 * 16, 2 * 16)
    assert many["states that agents have sent"] == 2 * 70
    assert few["events"] == 2 * 2 * 70


@pytest.mark.parametrize(
    ("aggregate", "windows", "said_of_it"),
    [
        ("COUNT(*)", "10 MINUTES EVERY 1 MINUTE", "take panes off again that windows leave behind"),
        ("MAX(n)", "10 MINUTES EVERY 1 MINUTE", "keep 10 min every 1 min in two stacks"),
        ("MAX(n)", "1 MINUTE, 20 MINUTES, 30 MINUTES, 40 MINUTES", "make hidden windows of 10 min as parts of others"),
        ("MAX(n)", "59 SECONDS EVERY 1 SECOND, 61 SECONDS, 67 SECONDS, 71 SECONDS", "too little in common"),
    ],
)
def test_the_way_in_which_windows_are_made_is_explained(
    files: FileBackend, capsys: pytest.CaptureFixture[str], aggregate: str, windows: str, said_of_it: str
) -> None:
    query = f"SELECT path, {aggregate} AS n FROM logs GROUP BY path WINDOWING {windows}"
    steps = json.loads(said(files, f"EXPLAIN {query}", "json", capsys))["master"]
    assert any(said_of_it in step for step in steps), steps


@pytest.mark.parametrize("text", ["EXPLAIN ANALYZE", "EXPLAIN ANALYZE SELECT nope(", "EXPLAIN ANALYZE SELECT a FROM b"])
def test_a_wrong_query_is_refused_as_always(files: FileBackend, text: str) -> None:
    with pytest.raises(UsageError, match="line 1, column"):
        run_statement(text, files, View("table"), ViewLimits())
