"""A live join of streams that different agents log, held against their archives by Spark."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from elf.cli import cli
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = [
    pytest.mark.slow,  # joins on Spark, and live ones, are each tested by default
    pytest.mark.live,
    pytest.mark.spark,
]
WINDOWS = 5
JOIN = "LEFT JOIN clicks WITHIN 2 SECONDS ON serves.serve = clicks.serve AND serves.ad = clicks.ad"
SHOWN = "serves.place, COUNT(*) AS n, COUNT(clicks.serve) AS clicked, SUM(clicks.price) AS paid"
QUERY = f"SELECT {SHOWN} FROM serves {JOIN} GROUP BY serves.place WINDOWING 2 SECONDS GRACE 1 SECOND"
LOGS = ("serves-1", "serves-2", "clicks-1")


class Traffic:
    """`with Traffic(folder):` logs serves on two servers and clicks on a third as time passes: some clicks come too
    late, some have another ad, or none."""

    def __init__(self, folder: Path) -> None:
        self.logs = {name: folder / f"{name}.json" for name in LOGS}
        for log in self.logs.values():
            log.touch()
        self._chosen = random.Random(11)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        clicks: list[tuple[float, dict[str, object]]] = []
        for number in itertools.count():
            if self._is_over.wait(0.02):
                return
            ad = f"a{number % 3}"
            serve = {"serve": f"s{number}", "ad": ad, "place": self._chosen.choice(["top", "side", None])}
            self._write(self._chosen.choice(LOGS[:2]), serve)
            for after_s in self._chosen.choice([[], [], [0.1], [0.5, 1.2], [3.0]]):
                other = self._chosen.choice([{}, {}, {}, {"ad": "other"}, {"serve": None}])
                clicks.append((time.time() + after_s, {"serve": f"s{number}", "ad": ad, "price": number % 5} | other))
            for one in [one for one in clicks if one[0] <= time.time()]:
                clicks.remove(one)
                self._write("clicks-1", one[1])

    def _write(self, name: str, event: dict[str, object]) -> None:
        with self.logs[name].open("a") as log:
            log.write(json.dumps({"time": time.time_ns() // 1_000_000, **event}) + "\n")


class Answered(NamedTuple):
    """The lines of a live query, and the archives of those who answered it."""

    lines: list[dict[str, Any]]
    archives: list[str]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Answered:
    traffic = Traffic(tmp_path_factory.mktemp("logs"))
    specs = [
        AgentSpec(name, (StreamFiles(name.partition("-")[0], (str(log),), "beginning", "time"),))
        for name, log in traffic.logs.items()
    ]
    with AgentFleet(tmp_path_factory.mktemp("fleet") / "agents", specs, archives=True) as fleet:
        words = ["query", "--app", "joined", "--windows", str(WINDOWS), "--timeout", "100", "--output", "json", QUERY]
        command = [sys.executable, "-m", "elf", *words, "--socket", str(fleet.socket("serves-1"))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
            assert asked.stdout is not None
            assert asked.stderr is not None
            assert any(f"{len(LOGS)} of {len(LOGS)} agents" in said for said in asked.stderr)
            with traffic:
                printed = asked.stdout.read()
            said = asked.stderr.read()
        assert asked.returncode == 0, (printed, said)
        archives = [str(fleet.archive(name)) for name in fleet.names]
        assert fleet.faults() == []
    return Answered([json.loads(line) for line in printed.splitlines()], archives)


def reconciled(answered: Answered, lines: list[dict[str, Any]] | None, folder: Path) -> Result:
    """Compares lines with the archives, or what is archived of the results themselves."""
    command = ["batch", "reconcile", "joined", *(word for one in answered.archives for word in ("--archive", one))]
    if lines is not None:
        live = folder / "live.jsonl"
        live.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command += ["--live", str(live), "--query", QUERY]
    return CliRunner().invoke(cli, [*command, "--output", "json"], standalone_mode=False)


def verdicts(found: Result) -> list[tuple[str, str | None]]:
    assert found.exception is None, found.exception
    return [(line["verdict"], line["difference"]) for line in map(json.loads, found.stdout.splitlines())]


@pytest.mark.usefixtures("in_session")
def test_what_a_fleet_has_answered_live_is_what_its_archives_give(answered: Answered, tmp_path: Path) -> None:
    assert len(answered.lines) == WINDOWS
    assert sum(row["clicked"] for line in answered.lines for row in line["rows"]) > 20
    assert not any(line.get("lost") for line in answered.lines)
    for lines in (answered.lines, None):
        found = reconciled(answered, lines, tmp_path)
        assert {verdict for verdict, _ in verdicts(found)} == {"equal"}, verdicts(found)
        assert len(verdicts(found)) >= WINDOWS
        assert found.return_value in (0, None)


@pytest.mark.usefixtures("in_session")
def test_a_result_that_was_changed_is_found(answered: Answered, tmp_path: Path) -> None:
    lines = json.loads(json.dumps(answered.lines))
    lines[2]["rows"][0]["clicked"] += 1
    found = reconciled(answered, lines, tmp_path)
    assert found.return_value == 1
    assert [verdict for verdict, _ in verdicts(found)] == ["equal", "equal", "unexplained", *["equal"] * (WINDOWS - 3)]
    assert "clicked is" in (verdicts(found)[2][1] or "")
