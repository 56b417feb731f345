"""Bounds the number of events that any schedule gets done in time, one that knows all arrivals included.

The bound is the optimum of a linear program: parts of events count as parts, and an event may be left for another at
any time. Every schedule fulfils its constraints (an event is done between its arrival and its deadline, the processor
does one thing at a time), so none gains more. Work that can be done that way is a polymatroid, as flows from events to
moments are. So it is optimal to take events in order of their cost, each as far as it fits beside those before it; and
the most that fits of some events altogether is what earliest deadline first does of them.
"""

from heapq import heappop, heappush

from .traces import Trace


def upper_bound(trace: Trace) -> float:
    """The number of events, and parts of such, that can be done in time at best. O(costs · batches · log batches)."""
    costs = sorted({cost for batch in trace.batches for cost in batch.counts})
    bound, before_s = 0.0, 0.0
    for number, cost in enumerate(costs, 1):
        most_s = most_work(trace, set(costs[:number]))
        bound += (most_s - before_s) / cost
        before_s = most_s
    return bound


def most_work(trace: Trace, costs: set[float]) -> float:
    """The most work (s) on events of these costs that can be done between their arrivals and their deadlines."""
    work = [(batch.at, batch.deadline, _work_s(batch.counts, costs)) for batch in trace.batches]
    waiting: list[tuple[float, float]] = []
    now, done, coming = 0.0, 0.0, 0
    while waiting or coming < len(work):
        if not waiting:
            now = max(now, work[coming][0])
        while coming < len(work) and work[coming][0] <= now:
            heappush(waiting, work[coming][1:])
            coming += 1
        deadline, left = heappop(waiting)
        upto = min(now + left, deadline)
        if coming < len(work):
            upto = min(upto, work[coming][0])
        if upto <= now:
            continue
        done += upto - now
        if upto < min(now + left, deadline):
            heappush(waiting, (deadline, left - (upto - now)))
        now = upto
    return done


def _work_s(counts: dict[float, int], costs: set[float]) -> float:
    return sum(cost * events for cost, events in counts.items() if cost in costs)
