"""What an aggregate of a job's own costs next to the built-in one that says the same: processor time, from events that
are in frames to results, of agent and program together, without the pipe between them."""

import time
from collections.abc import Callable

import numpy as np
import polars as pl

import elf
import query
from agent.programs import calls
from agent.runtime.function.consolidated_windows import ConsolidatedWindows
from agent.runtime.function.job_function import JobFunction
from agent.runtime.job.state_folds import StateFolds
from benchmarks.report import Comparison, smaller
from elf.program.aggregates import FoldedAggregates

from .lines import NAME

PANES, WINDOW_PANES, GROUPS = 30, 10, 20
_PLACE = calls.ProgramPosition(is_root=True, parent="0" * 32, children=[], now_ms=0, version=1)
_SCHEMA = query.Schema({"store": "string", "amount": "integer"}, open=False)


class Total(elf.Aggregate):
    """SUM, of a job's own."""

    gives = "integer"

    def lift(self, amount: int) -> int:
        return amount

    def combine(self, one: int, other: int) -> int:
        return one + other


def _function(aggregate: str) -> JobFunction:
    windows = f"{WINDOW_PANES} SECONDS EVERY 1 SECOND"
    parsed = query.parse(f"SELECT store, {aggregate}(amount) AS n FROM web GROUP BY store WINDOWING {windows}")
    plan = query.analyze(query.with_aggregates(parsed, {"TOTAL": Total.gives}), {"web": _SCHEMA})
    return JobFunction(plan, code=b"code")


class _Program:
    """A program that answers at once."""

    def __init__(self) -> None:
        self.folds = StateFolds()
        self.folds.call = self._call
        self._aggregates = FoldedAggregates({"TOTAL": Total})
        self._said: list[bytes] = []

    def _call(self, _code: bytes, made: Callable[[calls.ProgramPosition], calls.FoldStates]) -> bool:
        call = calls.read_call(calls.encode(made(_PLACE)))
        assert isinstance(call, calls.FoldStates)
        self._said.append(calls.encode(self._aggregates.answer(call)))
        return True

    def fold(self, function: JobFunction, state: pl.DataFrame, *, finishes: bool) -> pl.DataFrame:
        """The state, folded."""
        made: list[pl.DataFrame] = []
        self.folds.fold(self, function, state, made.append, finishes=finishes)
        self.folds.pump()
        while self._said:
            answer = calls.read_act(self._said.pop())
            assert isinstance(answer, calls.StatesFolded)
            assert self.folds.answered(answer) is None
        return made[0]


def _events(pane: int, events: int) -> pl.DataFrame:
    draw = np.random.default_rng(pane)
    stores = pl.Series(draw.integers(GROUPS, size=events)).cast(pl.String)
    times = np.full(events, 1000 * pane)
    return pl.DataFrame({"@time": times, "store": stores, "amount": draw.integers(1 << 20, size=events)})


def _run(function: JobFunction, events: int) -> tuple[float, float, list[dict[str, object]]]:
    """The time (s) of a processor for all and for windows alone, and the rows of these."""
    program, windows, rows = _Program(), ConsolidatedWindows.of(function), list[dict[str, object]]()
    read = [_events(pane, events) for pane in range(PANES)]
    began, windows_s = time.process_time(), 0.0
    for pane, frame in enumerate(read):
        store = function.new_store()
        store.insert(function.select(function.in_range(frame)))
        state = function.gather([one for one in store.flush() if one is not None])
        state = program.fold(function, state, finishes=False) if function.folds else state
        made = time.process_time()
        for window in windows.add(1000 * pane, state):
            whole = program.fold(function, window.state, finishes=True) if function.folds else window.state
            for found in function.windows(whole, [window.start_ms], window.size_ms).values():
                rows += map(dict, found)
        windows_s += time.process_time() - made
    return time.process_time() - began, windows_s, rows


def run(events: int) -> list[Comparison]:
    """A pane has so many events, with a different value each. Raises AssertionError where results differ."""
    for aggregate in ("TOTAL", "SUM"):
        _run(_function(aggregate), GROUPS)
    own_s, own_windows_s, own = _run(_function("TOTAL"), events)
    built_in_s, built_in_windows_s, built_in = _run(_function("SUM"), events)
    assert own == built_in
    assert own
    a_event, a_pane = 1e6 / (PANES * events), 1e3 / PANES
    label, windows = f"an aggregate of a job's own, {events:,} events a pane", f"windows of {WINDOW_PANES} panes of it"
    return [
        smaller(NAME, label, own_s * a_event, "µs an event", "SUM", built_in_s * a_event),
        smaller(NAME, windows, own_windows_s * a_pane, "ms a pane", "SUM", built_in_windows_s * a_pane),
    ]
