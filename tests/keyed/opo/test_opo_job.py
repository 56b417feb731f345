"""The shipped job by itself: its elements are given the visits of a site that applies what the job shows it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from seeds import seeds

import elf
from elf.jobs import opo

TOP = 0.7
BEGAN_MS = 1_800_000_000_000


def yield_at(prominence: float) -> float:
    """The share of visits with a click."""
    return max(0.02, 0.5 - 1.2 * (prominence - TOP) ** 2)


class SiteWithJob:
    """One web server, and the job's elements and object in this process; calls go from one to the other at once."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        self.now_ms = BEGAN_MS
        self.is_root = True
        self.shown: dict[str, Any] = {}
        self.lines: list[str] = []
        self.measurements = {name: self.element(opo.Measurement) for name in opo.SLICES}
        self.comparison, self.optimizer = self.element(opo.Comparison), self.element(opo.Optimizer)
        self.emitted: deque[Any] = deque()
        self.job = self.new_object()

    def element(self, kind: type[elf.PE]) -> Any:
        one: Any = kind()
        one._elf = self
        one.emit = lambda event: self.emitted.append(event)  # type: ignore[method-assign]
        return one

    @property
    def time_ms(self) -> int:
        return self.now_ms

    def key_of(self, element: elf.PE) -> str:
        return next((name for name, one in self.measurements.items() if one is element), opo.PAIR)

    def new_object(self) -> opo.Opo:
        job = opo.Opo()
        job._elf = self  # type: ignore[assignment]
        return job

    def multicast(self, message: Any) -> None:
        self.job.on_multicast("opo", message)

    def show(self, value: Any) -> None:
        self.shown = value

    def log(self, text: str) -> None:
        self.lines.append(text)

    def second(self, visits: int = 240) -> None:
        """Serves visits for a second, and publishes the window that ends with it."""
        for number in range(visits):
            if self.shown:
                name = self.draws.choice(opo.SLICES)
                clicked = self.draws.random() < yield_at(self.shown["slices"][name]["prominence"])
                visit = SimpleNamespace(
                    slice=name,
                    experiment=self.shown["experiment"],
                    value=int(clicked),
                    time_ms=self.now_ms + 1_000 * number // visits,
                )
                self.measurements[name].process_event(visit)
        self.now_ms += 1_000
        for one in (*self.measurements.values(), self.optimizer):
            one.output()
        settings = self.settings()
        rows = [{"experiment": one.experiment, "shown": one.shown} for one in settings]
        if rows:
            self.job.on_result(elf.Window("opo", None, None, rows))
        self.job.on_timer()

    def settings(self) -> list[opo.Setting]:
        found = []
        while self.emitted:
            event = self.emitted.popleft()
            if isinstance(event, opo.Slot):
                self.comparison.process_event(event)
            elif isinstance(event, opo.Outcome):
                self.optimizer.process_event(event)
            else:
                found.append(event)
        return found

    @property
    def best(self) -> float:
        return float(self.shown["best"]["prominence"])


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_best_parameter(seed: int) -> None:
    site = SiteWithJob(seed)
    for _ in range(200):
        site.second()
    start = opo.PARAMETERS[0].start
    gained = (yield_at(site.best) - yield_at(start)) / (yield_at(TOP) - yield_at(start))
    assert gained > 0.85, f"seed {seed}: {site.lines}"


def test_each_line_says_what_was_compared_and_what_came_of_it() -> None:
    site = SiteWithJob(1)
    while not site.lines:
        site.second()
    assert site.lines[0].startswith("prominence 0.4 is better than prominence 0.2: +0.")
    assert site.lines[0].endswith('slots; best {"prominence": 0.4}')


def test_a_master_that_knows_nothing_goes_on_with_what_the_elements_know() -> None:
    site = SiteWithJob(2)
    for _ in range(40):
        site.second()
    before = site.shown
    site.job = site.new_object()
    site.second()
    assert site.shown["experiment"] >= before["experiment"]
    assert site.shown["best"] == before["best"]


def test_elements_begun_anew_go_on_with_the_next_experiment() -> None:
    site = SiteWithJob(3)
    for _ in range(20):
        site.second()
    before = site.shown["experiment"]
    site.optimizer = site.element(opo.Optimizer)
    for _ in range(40):
        site.second()
    assert site.shown["experiment"] > before + 1


def test_an_agent_that_hears_an_old_setting_late_keeps_the_new_one() -> None:
    site = SiteWithJob(4)
    for number in (9, 8):
        site.job.on_multicast("opo", opo.Apply(number, json.dumps({"experiment": number})))
    assert site.shown == {"experiment": 9}


@pytest.mark.parametrize(
    ("experiment", "value"),
    [(10**15, 1), (0, 1), (-1, 1), ("7", 1), (None, 1), (5, "1"), (5, None), (5, True), (5.5, 1), (5, [1])],
)
def test_visits_that_make_no_sense_are_not_counted(experiment: Any, value: Any) -> None:
    site = SiteWithJob(5)
    visit = SimpleNamespace(slice="a", experiment=experiment, value=value, time_ms=BEGAN_MS)
    site.measurements["a"].process_event(visit)
    assert site.measurements["a"].state == {}


def test_the_search_begins_anew_from_the_best_point_before_its_state_grows_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opo, "VERDICTS_MAX", 3)
    site = SiteWithJob(6)
    for experiment in range(1, 4):
        site.optimizer.process_event(opo.Outcome(opo.PAIR, experiment, 1, 5, 300, 0.1))
    assert site.optimizer.verdicts == []
    assert site.optimizer.start == pytest.approx([0.8])
    last = site.settings()[-1]
    assert last.experiment == 4
    assert json.loads(last.shown)["best"] == {"prominence": 0.8}


@pytest.mark.parametrize("agents", seeds("3", slow=["1"]))
def test_over_files_it_says_what_came_of_the_experiment(tmp_path: Path, agents: str) -> None:
    draws = random.Random(1)
    lines: list[list[str]] = [[], []]
    for at_ms in range(BEGAN_MS, BEGAN_MS + 6_000, 3):
        name = draws.choice([*opo.SLICES, "rest"])
        value = int(draws.random() < (0.5 if name == "a" else 0.2))
        visit = {"time": at_ms / 1000, "slice": name, "experiment": BEGAN_MS // 1000, "value": value}
        lines[at_ms % 2].append(json.dumps(visit))
    files = [tmp_path / f"{number}.json" for number in range(2)]
    for file, some in zip(files, lines, strict=True):
        file.write_text("\n".join(some) + "\n")
    sources = [word for file in files for word in ("--source", f"visits={file}")]
    command = [sys.executable, "-m", "elf", "local", "--job", "opo", *sources, "--agents", agents, "--output", "json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    (row,) = json.loads(finished.stdout.splitlines()[0])["rows"]
    last = json.loads(row["shown"])["last"]
    assert (row["experiment"], last["verdict"], last["slots"]) == (BEGAN_MS // 1000 + 1, 1, 5)
    assert 0.15 < last["difference"] < 0.45
