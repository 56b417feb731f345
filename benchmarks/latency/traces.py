"""Events as they come to a processor: stamped every 5 ms, with keys of which some are in memory (Li et al., 5.2)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

STEP_S = 0.005
"""Time between two batches, as of the paper's source."""
KEYS = 100_000
EXPONENT = 1.0
"""Of Zipf's law, which keys follow."""
CHEAP_S, SPILLED_S = 2e-6, 50e-6
"""Cost of an event whose key is in memory (Fig. 7d), and of one whose key is not."""
Floats = npt.NDArray[np.float64]
Load = Callable[[float], float]
"""The load at a time: the share of the processor that events would take if all keys were in memory."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Events of one job that come at the same time, and have the same deadline (s). `costs`: of each (s)."""

    job: str
    at: float
    deadline: float
    costs: Floats

    @cached_property
    def upto(self) -> Floats:
        """The cost of the events up to each, itself included."""
        return np.cumsum(self.costs)

    @cached_property
    def counts(self) -> dict[float, int]:
        """The number of events of each cost."""
        costs, counts = np.unique(self.costs, return_counts=True)
        return dict(zip(costs.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Workload:
    """Events of one job. `memory`: the share of all keys that is in memory, those that come most."""

    load: Load
    within_s: float = 1.0
    memory: float = 1.0
    spilled_s: float = SPILLED_S
    job: str = "job"
    seed: int = 0


@dataclass(frozen=True)
class Trace:
    """Batches in the order in which they come."""

    batches: list[Batch] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(len(batch.costs) for batch in self.batches)

    @property
    def work_s(self) -> float:
        return float(sum(batch.upto[-1] for batch in self.batches))


def spilled_share(memory: float) -> float:
    """The share of events whose key is not in memory, where that has room for this share of all keys, the hottest.

    >>> round(spilled_share(0.25), 3), spilled_share(1.0)
    (0.115, 0.0)
    """
    shares = np.arange(1, KEYS + 1) ** -EXPONENT
    return float(shares[round(memory * KEYS) :].sum() / shares.sum())


def constant(load: float) -> Load:
    """The same load at any time."""
    return lambda _at: load


def demanding(demand: float, within_s: float, memory: float, job: str, seed: int) -> Workload:
    """Events of a job that take this share of the processor altogether."""
    mean = 1 + spilled_share(memory) * (SPILLED_S / CHEAP_S - 1)
    return Workload(constant(demand / mean), within_s, memory, job=job, seed=seed)


def make_trace(workloads: list[Workload], duration_s: float) -> Trace:
    """The batches of all workloads together."""
    batches = [batch for one in workloads for batch in _batches(one, duration_s)]
    return Trace(sorted(batches, key=lambda batch: batch.at))


def _batches(workload: Workload, duration_s: float) -> list[Batch]:
    draws = np.random.default_rng(workload.seed)
    spilled, due, batches = spilled_share(workload.memory), 0.0, []
    for step in range(round(duration_s / STEP_S)):
        at = step * STEP_S
        due += workload.load(at) * STEP_S / CHEAP_S
        events, due = int(due), due % 1
        if events:
            costs = np.where(draws.random(events) < spilled, workload.spilled_s, CHEAP_S)
            batches.append(Batch(workload.job, at, at + workload.within_s, costs))
    return batches
