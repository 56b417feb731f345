"""Measures the work that key groups are for the owners of a job, and all work of these agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agent.runtime.model.fields import GROUPS

PERIOD_S = 5.0
"""Time over which is counted before the rates are told anew."""
WEIGHT = 0.25
"""Weight of the newest period in a rate: moves that follow noise cost more than they gain."""
Rows = npt.NDArray[np.float64]


class GroupLoads:
    """Rates, as means of the last periods: `rows` of each group in a second (of `GROUPS`); by the node ids of owners,
    the share of a processor that the job's windows take there (`work`), and that the whole agent takes (`busy`)."""

    def __init__(self, now: float) -> None:
        self.rows: Rows = np.zeros(GROUPS)
        self.work: dict[int, float] = {}
        self.busy: dict[int, float] = {}
        self._counted: Rows = np.zeros(GROUPS)
        self._seconds: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._since = now
        self._has_measured = False

    def add_rows(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Counts rows of each group."""
        if len(rows) == GROUPS:
            self._counted += np.asarray(rows, dtype=np.float64)

    def add_seconds(self, node_id: int, work_s: float, busy_s: float) -> None:
        """Counts an owner's seconds of a processor: for the job's windows, and of the whole agent."""
        seconds = self._seconds[node_id]
        seconds[0] += work_s
        seconds[1] += max(work_s, busy_s)

    def tick(self, now: float) -> bool:
        """Makes rates of what was counted, once in a period; returns whether they are new."""
        seconds = now - self._since
        if seconds < PERIOD_S:
            return False
        weight = WEIGHT if self._has_measured else 1.0
        self.rows = (1 - weight) * self.rows + weight * self._counted / seconds
        for node_id, (work_s, busy_s) in self._seconds.items():
            new = weight if node_id in self.busy else 1.0
            self.work[node_id] = (1 - new) * self.work.get(node_id, 0.0) + new * work_s / seconds
            self.busy[node_id] = (1 - new) * self.busy.get(node_id, 0.0) + new * busy_s / seconds
        self._counted = np.zeros(GROUPS)
        self._seconds.clear()
        self._since, self._has_measured = now, True
        return True

    @property
    def of_groups(self) -> Rows:
        """The share of a processor that each group takes, by its rows."""
        rows = self.rows.sum()
        return self.rows * (sum(self.work.values()) / rows) if rows else np.zeros(GROUPS)
