"""Runs an agent's schedulers on one processor in virtual time: their decisions are real, events' work is not."""

from collections import Counter
from dataclasses import dataclass, field
from time import process_time

from agent.runtime.scheduling import CostAwareScheduler, CostClass, DeadlineQueue, EventCosts, Lot, slot_of

from .traces import CHEAP_S, Batch, Trace

CLOCK_S = 2e-8
"""Resolution of the clock that tells whether an event is in time."""


@dataclass(slots=True)
class Outcome:
    """Events that were done in time, by job, and the processor's time that scheduling took."""

    in_time: Counter[str] = field(default_factory=Counter)
    scheduling_s: float = 0.0
    work_s: float = 0.0

    @property
    def utility(self) -> int:
        """All events in time."""
        return self.in_time.total()


def schedule(
    trace: Trace, scheduler: CostAwareScheduler, costs: EventCosts | None = None, *, exact: bool = False
) -> Outcome:
    """Processes a trace as the scheduler says. Costs are measured, slice by slice; `costs` has those known already.

    `exact`: each batch has its own deadline, which is not that of a slot.
    """
    for batch in trace.batches:
        _ = batch.counts  # which of a batch's keys are in memory is no part of scheduling
    outcome = Outcome()
    queue, costs = DeadlineQueue(), EventCosts() if costs is None else costs
    for batch in trace.batches:
        queue.constrain(batch.job, batch.deadline - batch.at)
    began = process_time()
    now, arrivals = 0.0, iter(trace.batches)
    coming = next(arrivals, None)
    while True:
        while coming is not None and coming.at <= now:
            scheduler.release(_lots(coming, costs, exact=exact), now)
            coming = next(arrivals, None)
        lot = scheduler.next_to_process(now, queue.slice_s)
        scheduler.abandoned()
        if lot is None:
            if coming is None:
                break
            now = coming.at
            continue
        now = _process(lot, now, outcome)
        _measure(lot, costs, scheduler)
    outcome.scheduling_s = process_time() - began
    return outcome


def _class_of(cost_s: float) -> CostClass:
    return CostClass.CHEAP if cost_s == CHEAP_S else CostClass.SPILLED


def _lots(batch: Batch, costs: EventCosts, *, exact: bool) -> list[Lot]:
    """The events of a batch as lots, one for each cost; `source` tells the benchmark what they really cost."""
    deadline = batch.deadline if exact else slot_of(batch.deadline, batch.deadline - batch.at)
    lots = []
    for cost_s, events in batch.counts.items():
        cost_class = _class_of(cost_s)
        expected_s = costs.cost_s(batch.job, cost_class)
        lots.append(Lot(batch.job, batch.job, deadline, cost_class, events, expected_s, (batch, cost_s)))
    return lots


def _process(lot: Lot, now: float, outcome: Outcome) -> float:
    """Counts the events of a lot that are done in time; returns the time at which all are done."""
    assert isinstance(lot.source, tuple)
    batch, cost_s = lot.source
    work_s = lot.events * cost_s
    in_time = min(lot.events, max(0, int((batch.deadline + CLOCK_S - now) / cost_s)))
    outcome.in_time[batch.job] += in_time
    outcome.work_s += work_s
    return now + work_s


def _measure(lot: Lot, costs: EventCosts, scheduler: CostAwareScheduler) -> None:
    assert isinstance(lot.source, tuple)
    costs.measured(lot.operator, lot.cost_class, lot.events, lot.events * lot.source[1])
    if (cost_s := costs.revision(lot.operator, lot.cost_class)) is not None:
        scheduler.revise(lot.operator, lot.cost_class, cost_s)
