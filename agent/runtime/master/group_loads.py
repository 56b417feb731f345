"""Measures how many rows of each key group the owners of a job get."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agent.runtime.model.placement import GROUPS

PERIOD_S = 5.0
"""Time over which rows are counted before the rates are told anew."""
WEIGHT = 0.5
"""Weight of the newest period in a rate."""


class GroupLoads:
    """The rows of each group in a second (Float64, of `GROUPS`), as a mean of the last periods."""

    def __init__(self, now: float) -> None:
        self.rows: npt.NDArray[np.float64] = np.zeros(GROUPS)
        self._counted: npt.NDArray[np.int64] = np.zeros(GROUPS, dtype=np.int64)
        self._since = now
        self._has_measured = False

    def add(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Counts rows of each group."""
        if len(rows) == GROUPS:
            self._counted += np.asarray(rows, dtype=np.int64)

    def tick(self, now: float) -> bool:
        """Makes rates of what was counted, once in a period; returns whether they are new."""
        seconds = now - self._since
        if seconds < PERIOD_S:
            return False
        weight = WEIGHT if self._has_measured else 1.0
        self.rows = (1 - weight) * self.rows + weight * self._counted / seconds
        self._counted = np.zeros(GROUPS, dtype=np.int64)
        self._since, self._has_measured = now, True
        return True
