"""First-in-first-out queues in front of servers that take a fixed time for each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int16]


class ServerQueues:
    """ServerQueues of servers, each with its own seconds a row; all are empty at first."""

    def __init__(self, service_s: Floats) -> None:
        self._service_s = service_s
        self._free_s = np.zeros(len(service_s))

    def finished(self, servers: Places, arrivals_s: Floats) -> Floats:
        """The times at which rows are done, which come to these servers at these times, in this order.

        A row is done a service time after it has come and the row before it is done. O(rows · log rows).
        """
        if not len(servers):
            return np.empty(0)
        order = np.argsort(servers, kind="stable")
        grouped = servers[order]
        counts = np.bincount(servers, minlength=len(self._free_s))
        ends = np.cumsum(counts)
        ranks = np.arange(len(servers)) - (ends - counts)[grouped]
        service_s = self._service_s[grouped]
        starts_s = np.maximum(arrivals_s[order], self._free_s[grouped]) - ranks * service_s
        done_s = _running_maximum(starts_s, grouped) + (ranks + 1) * service_s
        busy = np.flatnonzero(counts)
        self._free_s[busy] = done_s[ends[busy] - 1]
        finished_s = np.empty(len(servers))
        finished_s[order] = done_s
        return finished_s


def _running_maximum(values: Floats, groups: Places) -> Floats:
    """The greatest value so far in each group, whose members stand together, groups ascending."""
    lift = groups * (values.max() - values.min() + 1.0)
    running: Floats = np.maximum.accumulate(values + lift) - lift
    return running
