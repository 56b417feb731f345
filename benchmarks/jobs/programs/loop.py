"""A feedback loop: the master's word goes down, sums come up the tree, and bring about the master's next word."""

import json
import time
from dataclasses import dataclass

import elf

STEPS = 100
CLUSTERS = 4
"""So many sums come from each agent."""
LOST_S = 15.0


@elf.message
@dataclass(frozen=True)
class Step:
    """One iteration; its sums are those of this pane (epoch ms)."""

    pane: int


class Loop(elf.Job):
    query = "SELECT cluster, SUM(points) AS points FROM web GROUP BY cluster"
    drives = True
    timer_s = 1.0

    def __init__(self) -> None:
        self.pane = 0
        self.began_at = 0.0
        self.took: list[tuple[float, int]] = []

    def on_timer(self) -> None:
        if self.is_root and len(self.took) < STEPS and time.time() - self.began_at > LOST_S:
            self.step()

    def step(self) -> None:
        self.pane = max(self.now_ms, self.pane + 1)
        self.began_at = time.time()
        self.multicast(Step(self.pane))

    def on_multicast(self, app: str, step: Step) -> None:
        self.cbt.insert(*({"cluster": cluster, "points": 1} for cluster in range(CLUSTERS)))
        self.send_to(self.parent, self.cbt.flush(), step.pane)
        self.cbt.empty()

    def on_result(self, window: elf.Window) -> None:
        if window.end_ms != self.pane or len(self.took) >= STEPS:
            return
        points = sum(row["points"] for row in window.rows)
        self.took.append((round(1000 * (time.time() - self.began_at), 1), points))
        if len(self.took) == STEPS:
            self.log(json.dumps(self.took))
        else:
            self.step()
