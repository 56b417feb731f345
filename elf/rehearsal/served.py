"""The course of a rehearsal: where each row went, when it came and when it was done."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from elf.rehearsal.queues import Floats, Places

MARKS_MAX = 1 << 28
"""Upper bound on (key, worker) pairs that are marked in a table; more are sorted."""


@dataclass(frozen=True)
class Served:
    """The rows of a stream in order: the server of each, and when it came and was done."""

    servers: Places
    arrivals_s: Floats
    finished_s: Floats

    @property
    def makespan_s(self) -> float:
        """The time from the start until the last row is done."""
        return float(self.finished_s.max())

    def waits_s(self, *percentiles: float) -> list[float]:
        """Percentiles of the times from a row's arrival until it is done."""
        return [float(one) for one in np.percentile(self.finished_s - self.arrivals_s, percentiles)]

    @property
    def mean_wait_s(self) -> float:
        """The mean time from a row's arrival until it is done."""
        return float((self.finished_s - self.arrivals_s).mean())

    def entries(self, keys: npt.NDArray[np.int32]) -> int:
        """The number of (key, server) pairs: states that workers hold. `keys` are the rows' keys, by number."""
        return distinct_pairs(keys, self.servers)

    def entries_of_panes(self, keys: npt.NDArray[np.int32], panes: int) -> int:
        """The sum of the entries of so many equal parts of the stream, each of which starts with none."""
        edges = np.linspace(0, len(keys), panes + 1).astype(int)
        parts = [slice(*part) for part in pairwise(edges)]
        return sum(distinct_pairs(keys[part], self.servers[part]) for part in parts)


def distinct_pairs(keys: npt.NDArray[np.int32], servers: Places) -> int:
    """The number of different (key, server) pairs among rows. At most O(rows · log rows)."""
    if not len(keys):
        return 0
    width = int(servers.max()) + 1
    pairs = keys.astype(np.int64) * width + servers
    size = (int(keys.max()) + 1) * width
    if size > min(MARKS_MAX, 64 * len(pairs)):
        return len(np.unique(pairs))
    marks = np.zeros(size, bool)
    marks[pairs] = True
    return int(marks.sum())
