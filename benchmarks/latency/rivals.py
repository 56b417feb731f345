"""Other schedulers, over the same events: as they come (FIFO), by deadline (EDF), and D^over (Koren and Shasha, RTSS
1992). They know the exact deadline of each event, and D^over the exact cost.
"""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from .traces import Batch, Trace


def fifo(trace: Trace) -> Counter[str]:
    """Everything is done, however late: the events of each job that are in time."""
    return _in_order(trace, by_deadline=False)


def edf(trace: Trace) -> Counter[str]:
    """The event that is due first is done first, unless its deadline has passed: those of each job that are in time."""
    return _in_order(trace, by_deadline=True)


def _in_order(trace: Trace, *, by_deadline: bool) -> Counter[str]:
    in_time: Counter[str] = Counter()
    waiting: list[tuple[float, int, int]] = []
    """Batches by urgency, each with the number of its next event."""
    batches, now, coming = trace.batches, 0.0, 0
    while waiting or coming < len(batches):
        if not waiting:
            now = max(now, batches[coming].at)
        while coming < len(batches) and batches[coming].at <= now:
            batch = batches[coming]
            heappush(waiting, (batch.deadline if by_deadline else batch.at, coming, 0))
            coming += 1
        urgency, number, first = heappop(waiting)
        batch = batches[number]
        if by_deadline and now >= batch.deadline:
            continue
        upto_s = batches[coming].at if coming < len(batches) else math.inf
        now, last, met = _run(batch, first, now, min(upto_s, batch.deadline) if by_deadline else upto_s)
        in_time[batch.job] += met
        if last < len(batch.costs):
            heappush(waiting, (urgency, number, last))
    return in_time


def _run(batch: Batch, first: int, now: float, upto_s: float) -> tuple[float, int, int]:
    """Does the events of a batch, from the one numbered `first`, that begin before `upto_s`, but one at least; returns
    the time, the number of the next one, and how many were in time."""
    began = now - (batch.upto[first - 1] if first else 0.0)
    ends = began + batch.upto
    last = len(ends) if upto_s == math.inf else int(np.searchsorted(ends, upto_s, side="left")) + 1
    last = min(max(last, first + 1), len(ends))
    met = int(np.searchsorted(ends[first:last], batch.deadline, side="right"))
    return float(ends[last - 1]), last, met


@dataclass(frozen=True, slots=True)
class Task:
    """A task of D^over."""

    released: float
    deadline: float
    cost: float
    value: float = 1.0


def tasks_of(trace: Trace) -> list[Task]:
    """Each event as a task."""
    return [Task(batch.at, batch.deadline, cost) for batch in trace.batches for cost in batch.costs.tolist()]


def d_over(tasks: Sequence[Task]) -> float:
    """The value that D^over gains of tasks, in the order in which they are released."""
    return DOver(tasks).run()


class _Waiting:
    """Tasks by a time of theirs, the first come first among equals: few times are different, whatever waits."""

    def __init__(self, tasks: int) -> None:
        self._times: list[float] = []
        self._tasks: dict[float, deque[int]] = {}
        self._time_of: list[float | None] = [None] * tasks
        """The time of each task that waits: other entries of it are void."""

    def add(self, time: float, number: int) -> None:
        """Adds a task."""
        self._time_of[number] = time
        tasks = self._tasks.get(time)
        if tasks is None:
            tasks = self._tasks[time] = deque()
            heappush(self._times, time)
        tasks.append(number)

    def remove(self, number: int) -> None:
        """Removes a task."""
        self._time_of[number] = None

    def first(self) -> tuple[float, int] | None:
        """The earliest time, and a task of it."""
        while self._times:
            time = self._times[0]
            tasks = self._tasks[time]
            while tasks:
                if self._time_of[tasks[0]] == time:
                    return time, tasks[0]
                tasks.popleft()
            del self._tasks[heappop(self._times)]
        return None


class DOver:
    """D^over: earliest deadline first while there is time for all, and where there is not, a task that can wait no
    longer takes the processor only if it is worth (1 + √k) times all that it displaces; else it is abandoned.

    `k` is the ratio of the highest value density (value over cost) to the lowest. Privileged tasks are the running one,
    and those that it, or one of them, has preempted while there was time for all. Tasks come in order of their release.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        densities = [task.value / task.cost for task in tasks]
        self._worth = 1 + math.sqrt(max(densities) / min(densities)) if densities else 2.0
        self._remaining = [task.cost for task in tasks]
        self._gained = 0.0
        self._now = 0.0
        self._current: int | None = None
        self._available = math.inf
        """The time for which privileged tasks can wait."""
        self._recent: list[tuple[int, float, float]] = []
        """Preempted privileged tasks, the earliest deadline last, with the time then, and what was available."""
        self._recent_value = 0.0
        self._by_deadline = _Waiting(len(tasks))
        self._by_latest = _Waiting(len(tasks))
        """All other tasks that wait, by deadline, and by the latest time to start them."""

    def run(self) -> float:
        """Goes from event to event; returns the value of all tasks that were completed in time."""
        for number, task in enumerate(self._tasks):
            if task.released > self._now:
                self._advance(task.released)
            self._release(number, task)
        self._advance(math.inf)
        return self._gained

    def _advance(self, upto: float) -> None:
        """Lets time pass: tasks are completed, and the latest times to start come."""
        while self._current is not None:
            completes = self._now + self._remaining[self._current]
            waiting = self._by_latest.first()
            if waiting is not None and waiting[0] < completes and waiting[0] <= upto:
                self._pass(max(self._now, waiting[0]))
                self._cannot_wait(waiting[1])
            elif completes <= upto:
                self._now = completes
                self._complete(self._current)
            else:
                self._pass(upto)
                return
        self._now = upto

    def _pass(self, upto: float) -> None:
        assert self._current is not None
        self._remaining[self._current] -= upto - self._now
        self._now = upto

    def _laxity(self, number: int) -> float:
        return self._tasks[number].deadline - self._now - self._remaining[number]

    def _wait(self, number: int) -> None:
        """Puts a task among the others."""
        deadline = self._tasks[number].deadline
        self._by_deadline.add(deadline, number)
        self._by_latest.add(deadline - self._remaining[number], number)

    def _stop_waiting(self, number: int) -> None:
        self._by_deadline.remove(number)
        self._by_latest.remove(number)

    def _release(self, number: int, task: Task) -> None:
        if self._current is None:
            self._current, self._available = number, self._laxity(number)
        elif task.deadline < self._tasks[self._current].deadline and self._available >= task.cost:
            self._recent.append((self._current, self._now, self._available))
            self._recent_value += self._tasks[self._current].value
            self._available = min(self._available - task.cost, self._laxity(number))
            self._current = number
        else:
            self._wait(number)

    def _complete(self, number: int) -> None:
        """Goes on with the privileged task that was preempted last, or with another that is due before it."""
        if self._now <= self._tasks[number].deadline + 1e-12:
            self._gained += self._tasks[number].value
        found = self._by_deadline.first()
        if not self._recent:
            self._current = None if found is None else found[1]
            if found is not None:
                self._stop_waiting(found[1])
                self._available = self._laxity(found[1])
            return
        privileged, then, available = self._recent[-1]
        available -= self._now - then
        deadline = self._tasks[privileged].deadline
        if found is not None and found[0] < deadline and available >= self._remaining[found[1]]:
            self._current = found[1]
            self._stop_waiting(found[1])
            self._available = min(available - self._remaining[found[1]], self._laxity(found[1]))
        else:
            self._recent.pop()
            self._recent_value -= self._tasks[privileged].value
            self._current, self._available = privileged, available

    def _cannot_wait(self, number: int) -> None:
        """A task has to start now or never."""
        assert self._current is not None
        self._stop_waiting(number)
        displaced = self._recent_value + self._tasks[self._current].value
        if self._tasks[number].value > self._worth * displaced:
            for one in (self._current, *(one for one, _, _ in self._recent)):
                self._wait(one)
            self._recent.clear()
            self._recent_value, self._available = 0.0, 0.0
            self._current = number
