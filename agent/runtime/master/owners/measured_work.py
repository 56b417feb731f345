"""Makes rates and costs of the work that the agents of a job tell of, as decisions need them (Enorm, section 5.1.1)."""

from __future__ import annotations

from collections import deque
from math import log

import numpy as np
import numpy.typing as npt

from agent.placement import FrameCost, WindowJob, WindowWork
from agent.runtime.master.owners.group_loads import WEIGHT
from agent.runtime.model.fields import WorkDone
from agent.runtime.model.meters import Work

PERIODS_MAX = 24
"""Number of periods that costs of frames are fitted to: two minutes."""
_FRAMES, _ROWS, _MICROS = range(3)


class MeasuredWork:
    """Work by kind, as means of the last periods."""

    def __init__(self) -> None:
        self.per_s: npt.NDArray[np.float64] = np.zeros((len(Work), 3))
        """Frames, rows and microseconds in a second."""
        self._periods: deque[npt.NDArray[np.float64]] = deque(maxlen=PERIODS_MAX)

    def add(self, done: WorkDone, seconds: float) -> None:
        """Takes what was told of in a period."""
        period = np.zeros((len(Work), 3))
        period[: len(done)] = np.array(done).reshape(-1, 3)[: len(Work)]
        weight = WEIGHT if self._periods else 1.0
        self.per_s = (1 - weight) * self.per_s + weight * period / seconds
        self._periods.append(period)

    def cost(self, work: Work) -> FrameCost:
        """The time that a kind of work takes. O(periods)."""
        told = np.array([period[work] for period in self._periods]).reshape(-1, 3)
        return FrameCost.fitted(told[:, _FRAMES], told[:, _ROWS], told[:, _MICROS] / 1e6)

    def mean_rows(self, work: Work) -> float:
        """The rows of a frame, on average; 0 where there was none."""
        frames, rows, _ = self.per_s[work].tolist()
        return rows / frames if frames else 0.0

    def work(
        self, job: WindowJob, *, pane_rows: float, moves_per_s: float, at_owners: bool, chooses: bool
    ) -> WindowWork | None:
        """The work of a period of a job's windows; None as long as nothing is known of it. `pane_rows`: those of a pane
        of all agents. `at_owners`: owners make windows now, all but the part of the master's own tree are told of.
        `chooses`: HAVING or LIMIT leave some of a window's rows out."""
        keys, window_rows = self.mean_rows(Work.KEEP), self.mean_rows(Work.MADE)
        times = self.per_s[:, _MICROS]
        if not (keys and window_rows and times[Work.MERGE] and times[Work.ENCODE] + times[Work.DECODE]):
            return None
        roots = job.owners if at_owners else 1
        window_rows *= roots
        shown = self.mean_rows(Work.SHOW) / window_rows if at_owners else 1.0
        if not at_owners and chooses and (of := self.mean_rows(Work.SHOW)):
            shown = self.mean_rows(Work.SHOWN) / of
        pane_rows = max(pane_rows, keys)
        sizes = job.windows.windows
        span = sum(one.number * one.panes for one in sizes) / sum(one.number for one in sizes)
        encode, decode = self.cost(Work.ENCODE), self.cost(Work.DECODE)
        return WindowWork(
            rows=float(self.per_s[Work.COUNT, _ROWS]) * job.period_s,
            keys=keys,
            count=self.cost(Work.COUNT),
            send=FrameCost(encode.fixed_s + decode.fixed_s, encode.row_s + decode.row_s),
            join=self.cost(Work.JOIN),
            merge=self.cost(Work.MERGE),
            show=self.cost(Work.SHOW),
            input_keys=self.mean_rows(Work.MERGE) * roots,
            spread=pane_rows / keys,
            growth=min(1.0, log(max(1.0, window_rows / pane_rows)) / log(span)) if span > 1 else 0.0,
            shown=min(1.0, shown),
            moves=moves_per_s * job.period_s,
        )
