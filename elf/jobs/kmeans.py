"""K-means (paper §2.3, cycles): where visitors come from, as the centres of clusters of their coordinates.

Points stay where they are. In each step of Lloyd's iteration the master multicasts the centroids; every agent assigns
its own points to the nearest one, and sums of coordinates come up the tree: a row for each cluster. From them the
master makes the next centroids, and multicasts them, until none of them moves any more. So a step takes as long as a
multicast and a snapshot, not as long as a window. Every 5 seconds a new run begins, over the points that agents have
by then: the last `POINTS_MAX` of each.

All steps of a run are over the same points. If an agent leaves or comes back in the middle, a step has fewer or more:
where such a run would end depends on when that happened, so it is given up, and the next one has the points there are.

Whoever becomes the master has heard the last step, and begins the next run.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import elf

Point = tuple[float, float]
START: list[Point] = [(-15.0, 0.0), (-5.0, 0.0), (5.0, 0.0), (15.0, 0.0)]
"""Longitude and latitude of the first centroids."""
POINTS_MAX = 20_000
STEPS_MAX = 100
LOST_MS = 15_000
"""A step without a result for so long is lost with its run."""


@elf.message
@dataclass(frozen=True)
class Step:
    """One iteration; its sums are those of this pane (epoch ms)."""

    run: int
    number: int
    pane: int
    centroids: list[Point]


class KMeans(elf.Job):
    """Clusters of visitors. Each window is one step, with a row for each cluster that has points."""

    reads = {"user.longitude": "number", "user.latitude": "number"}
    query = "SELECT cluster, SUM(points) AS points, SUM(x) AS x, SUM(y) AS y FROM events GROUP BY cluster"
    drives = True
    timer_s = 5.0

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=POINTS_MAX)
        self.of_this_run: list[Point] = []
        self.last = Step(0, 0, 0, START)
        self.is_running = False
        self.total = 0
        """Points of this run, which its first step has counted."""

    def map(self, event: dict[str, Any]) -> None:
        x, y = event["user.longitude"], event["user.latitude"]
        if x is not None and y is not None:
            self.points.append((x, y))

    def on_timer(self) -> None:
        if self.is_root and not (self.is_running and self.now_ms - self.last.pane < LOST_MS):
            self.step(self.last.run + 1, 0, START)

    def step(self, run: int, number: int, centroids: list[Point]) -> None:
        self.is_running = True
        self.last = Step(run, number, max(self.now_ms, self.last.pane + 1), centroids)
        self.multicast(self.last)

    def on_multicast(self, app: str, step: Step) -> None:
        if step.run != self.last.run or step.number == 0:
            self.of_this_run = list(self.points)
        self.last = step
        clusters: dict[int, list[Point]] = {}
        for point in self.of_this_run:
            clusters.setdefault(nearest(point, step.centroids), []).append(point)
        self.cbt.insert(*(sums_of(number, points) for number, points in clusters.items()))
        self.send_to(self.parent, self.cbt.flush(), step.pane)
        self.cbt.empty()

    def on_result(self, window: elf.Window) -> None:
        if window.end_ms != self.last.pane or not self.is_running:
            return
        points = sum(row["points"] for row in window.rows)
        if self.last.number == 0:
            self.total = points
        if points != self.total:
            self.is_running = False
            step = f"step {self.last.number} has {points}"
            self.log(f"the run is given up: it began with {self.total} points, and {step}")
            return
        centroids = list(self.last.centroids)
        for row in window.rows:
            centroids[row["cluster"]] = (row["x"] / row["points"], row["y"] / row["points"])
        if centroids != self.last.centroids and self.last.number < STEPS_MAX:
            self.step(self.last.run, self.last.number + 1, centroids)
            return
        self.is_running = False
        centres = ", ".join(f"({x:.2f} {y:.2f})" for x, y in centroids)
        if points:
            self.log(f"{points} points, {self.last.number} steps to {centres}")


def sums_of(cluster: int, points: list[Point]) -> dict[str, Any]:
    """A cluster's row, of one agent's points."""
    x, y = map(math.fsum, zip(*points, strict=True))
    return {"cluster": cluster, "points": len(points), "x": x, "y": y}


def nearest(point: Point, centroids: list[Point]) -> int:
    """The number of the nearest centroid, the first of several."""
    distances = [math.dist(point, centroid) for centroid in centroids]
    return distances.index(min(distances))
