"""Events in time where the processor is overloaded, for lack of memory or by bursts, by each scheduler (Figures 7a,
7c, 7d), with several jobs as well; and what scheduling itself takes.

Virtual time: a cheap event takes 2 µs, one whose key is not in memory 10 to 100. ELF's objects are those that agents
have; they are told neither costs nor loads.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.runtime.scheduling import FairScheduler, max_min_shares
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison, throughput, within

from .offline_bound import upper_bound
from .rivals import d_over, edf, fifo, tasks_of
from .traces import Load, Workload, constant, demanding, make_trace
from .virtual_processor import Outcome, schedule

NAME = "latency"
UNIT = "% in time"
OF_BOUND = 0.97
"""Least share of the bound that cost-aware scheduling reaches."""
BURSTS = (1.0, 1.36, 1.8)
"""Loads of Fig. 7c: 1.1, 1.5 and 2.0 million tweets a second, over the first."""
MEMORIES = (1.0, 0.75, 0.5, 0.25)
SPILLED_US = (10, 20, 50, 100)
SCHEDULING_MAX = 0.05
"""Most that scheduling may take of the events' own work."""


@dataclass(frozen=True, slots=True)
class Case:
    """A trace of one job. Targets are over D^over and EDF; None: nothing is aimed at."""

    name: str
    workload: Workload
    over_d_over: float | None = None
    over_edf: float | None = None


def _by_turns(low: float, high: float, period_s: float) -> Load:
    return lambda at: high if at % (2 * period_s) >= period_s else low


def memory_case(memory: float) -> Case:
    """Fig. 7a: events that are as many as the processor can do if all keys are in memory."""
    name = f"7a, {memory:.0%} of keys in memory"
    return Case(name, Workload(constant(1.0), 1.0, memory), 1.3 if memory == 0.25 else None)


def burst_case(load: float) -> Case:
    """Fig. 7c: more events than that, with all keys in memory."""
    return Case(f"7c, load {load:g}", Workload(constant(load)))


def disk_case(spilled_us: int) -> Case:
    """Fig. 7d: half a second, a quarter of the keys in memory."""
    workload = Workload(constant(1.0), 0.5, 0.25, spilled_us * 1e-6)
    return Case(f"7d, {spilled_us} us an event not in memory", workload, 1.05, 1.15 if spilled_us >= 20 else None)


TURNS = Case("bursts of 1.8 and calm of 0.6, each for 1 s", Workload(_by_turns(0.6, 1.8, 1.0), memory=0.75))
FULL = (*map(memory_case, MEMORIES), *map(burst_case, BURSTS), *map(disk_case, SPILLED_US), TURNS)
QUICK = (memory_case(0.25), burst_case(1.8), disk_case(20), disk_case(100))
FULL_S, QUICK_S = 6.0, 2.0
"""Time in which events come. A bound on a short time knows that nothing comes after it, which schedulers do not."""
SHARED_S = 6.0
"""The same for several jobs: longer than their constraints."""


def schedulers(*, quick: bool) -> list[Comparison]:
    """All rows."""
    lines = []
    for case in QUICK if quick else FULL:
        progress(case.name)
        lines += list(_lines(case, QUICK_S if quick else FULL_S))
    return [*lines, *_shared(SHARED_S)]


def _lines(case: Case, duration_s: float) -> Iterator[Comparison]:
    """Yields a line for the bound, and one for each rival."""
    trace = make_trace([case.workload], duration_s)
    found = schedule(trace, FairScheduler())
    share, value = 100 / trace.events, 100 * found.utility / trace.events
    label = f"{case.name}: "
    yield throughput(NAME, f"{label}of the bound", value, UNIT, "any schedule", share * upper_bound(trace), OF_BOUND)
    yield throughput(NAME, f"{label}D^over", value, UNIT, "D^over", share * d_over(tasks_of(trace)), case.over_d_over)
    yield throughput(NAME, f"{label}EDF", value, UNIT, "EDF", share * edf(trace).total(), case.over_edf)
    yield throughput(NAME, f"{label}FIFO", value, UNIT, "FIFO", max(share, share * fifo(trace).total()), None)
    yield _scheduling_line(label, found)


def _scheduling_line(label: str, found: Outcome) -> Comparison:
    """The processor's time of a whole run, which does nothing but schedule, beside the work of the events done."""
    taken = 100 * found.scheduling_s / found.work_s
    return within(NAME, f"{label}scheduling", taken, "% of work", 100 * SCHEDULING_MAX)


DEMANDS = (("small", 0.15, 0.5, 1.0), ("modest", 0.25, 1.0, 0.25), ("large", 0.6, 1.0, 0.25), ("huge", 0.8, 2.0, 0.5))
"""Jobs that demand 1.8 processors together: demand, constraint (s), and memory of each. Two are within their share."""


def _shared(duration_s: float) -> list[Comparison]:
    """Rows of several jobs on one processor."""
    workloads = [
        demanding(demand, within_s, memory, job, number)
        for number, (job, demand, within_s, memory) in enumerate(DEMANDS)
    ]
    trace = make_trace(workloads, duration_s)
    found, by_deadline = schedule(trace, FairScheduler()), edf(trace)
    shares = max_min_shares({job: demand for job, demand, *_ in DEMANDS}, 1.0)
    events = {job: sum(len(one.costs) for one in trace.batches if one.job == job) for job in shares}
    modest = [job for job, demand, *_ in DEMANDS if shares[job] == demand]
    label = "4 jobs, load 1.8: "
    lost = sum(events[job] - found.in_time[job] for job in modest)
    lost_by_edf = sum(events[job] - by_deadline[job] for job in modest)
    value, bound = 100 * found.utility / trace.events, 100 * upper_bound(trace) / trace.events
    edf_value = 100 * by_deadline.total() / trace.events
    return [
        within(NAME, f"{label}lost by jobs within their share", lost, "events", 0.0),
        within(NAME, f"{label}lost by jobs within their share, by EDF", lost_by_edf, "events"),
        throughput(NAME, f"{label}of the bound, which is not fair", value, UNIT, "any schedule", bound, None),
        throughput(NAME, f"{label}EDF", value, UNIT, "EDF", edf_value, 1.15),
        _scheduling_line(label, found),
    ]
