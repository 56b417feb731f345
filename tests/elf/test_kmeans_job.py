"""The k-means job by itself, beside agents that come and go between the steps of a run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

import elf
from elf.demo.story.truth import lloyd
from elf.jobs.kmeans import START, STEPS_MAX, KMeans, Step

AGENTS = 4


class Side:
    """What one agent does for the job; the first one is the master's."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet = fleet
        self.is_root = number == 0
        self.parent = "root"
        self.rows: list[Mapping[str, Any]] = []
        self.cbt = self

    @property
    def now_ms(self) -> int:
        return self._fleet.now_ms

    def multicast(self, message: Step) -> None:
        self._fleet.step = message

    def insert(self, *rows: Mapping[str, Any]) -> None:
        self.rows += rows

    def flush(self) -> list[Mapping[str, Any]]:
        return list(self.rows)

    def empty(self) -> None:
        self.rows.clear()

    def send_to(self, node: str, paos: list[Mapping[str, Any]], pane: int) -> None:  # noqa: ARG002
        self._fleet.sent += paos

    def log(self, text: str) -> None:
        self._fleet.said.append(text)


class Fleet:
    """The objects of the job, each with points of its own. `step` is what was multicast last and nobody has heard."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.now_ms = 1_000_000
        self.step: Step | None = None
        self.sent: list[Mapping[str, Any]] = []
        self.said: list[str] = []
        self.jobs = [KMeans() for _ in range(AGENTS)]
        for number, job in enumerate(self.jobs):
            job._elf = Side(self, number)  # type: ignore[assignment]
            for _ in range(50):
                x, y = float(draw.randrange(-180, 181)), float(draw.randrange(-60, 71))  # whose sums are exact
                job.map({"user.longitude": x, "user.latitude": y})

    def play_run(self, away: Mapping[int, Collection[int]]) -> None:
        """A run as the timer begins it; `away` are the agents that do not take part in a step, by its number."""
        self.now_ms += 5_000
        self.jobs[0].on_timer()
        while self.step is not None:
            step, self.step = self.step, None
            for number, job in enumerate(self.jobs):
                if number not in away.get(step.number, ()):
                    job.on_multicast("kmeans", step)
            self.jobs[0].on_result(self._window(step))

    def _window(self, step: Step) -> elf.Window:
        sums = {row["cluster"]: Counter[str]() for row in self.sent}
        for row in self.sent:
            sums[row["cluster"]].update({name: row[name] for name in ("points", "x", "y")})
        self.sent = []
        rows = [{"cluster": cluster, **counted} for cluster, counted in sums.items()]
        end = datetime.fromtimestamp(step.pane / 1000, UTC).isoformat()
        return elf.Window(app="kmeans", window_start=None, window_end=end, rows=rows)

    def lloyd(self, *agents: int) -> str:
        """What the job should say of a run over the points of these agents."""
        cloud = [point for number in agents for point in self.jobs[number].points]
        steps = lloyd(cloud, START)
        centres = ", ".join(f"({x:.2f} {y:.2f})" for x, y in steps[-1])
        return f"{len(cloud)} points, {len(steps) - 1} steps to {centres}"


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_an_agent_leaves_or_joins_is_given_up_and_the_next_one_is_over_the_points_there_are(
    seed: int,
) -> None:
    fleet = Fleet(seed)
    fleet.play_run({})
    fleet.play_run({2: [3]})
    fleet.play_run({0: [3]})
    fleet.play_run({step: [3] for step in range(STEPS_MAX)})
    fleet.play_run({})
    assert fleet.said == [
        fleet.lloyd(0, 1, 2, 3),
        "the run is given up: it began with 200 points, and step 2 has 150",
        "the run is given up: it began with 150 points, and step 1 has 200",
        fleet.lloyd(0, 1, 2),
        fleet.lloyd(0, 1, 2, 3),
    ]
