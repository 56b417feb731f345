"""Windows of several panes at a master: whatever the runs that bring panes, they are what brute force says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import query
from agent.runtime.function.job_function import JobFunction
from agent.runtime.master import windows as open_windows
from agent.runtime.master.windows import ClosedWindow, PaneIndex, WindowAssembler
from agent.runtime.model.panes import END, FIRST_PANE, Counts, Run

EVENTS = st.lists(st.tuples(st.integers(-50, 200), st.sampled_from("abc")), max_size=40)
SIZES = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=3, unique_by=lambda one: one[0]
)
MS = 1000


def function_of(clause: str) -> JobFunction:
    text = f"SELECT product, COUNT(*) AS n FROM web GROUP BY product {clause}"
    plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})
    return JobFunction(query.Plan.from_wire(plan.to_wire()))


def run_of(function: JobFunction, events: list[tuple[int, str]], after: int, upto: int, agents: int = 1) -> Run:
    """What agents seal of the events (seconds) in (after, upto]."""
    assert function.pane_ms is not None
    columns = {"@time": [MS * at for at, _ in events], "product": [product for _, product in events]}
    frame = function.in_range(pl.DataFrame(columns, schema={"@time": pl.Int64, "product": pl.String}))
    frame = frame.filter(pl.col("pane").is_between(after, upto, closed="right"))
    store = function.new_store()
    store.insert(function.select(frame))
    counted = {pane: Counts(events=n) for pane, n in frame["pane"].value_counts(name="events").sort("pane").iter_rows()}
    return Run(after, upto, agents, function.gather(list(store.flush())), counted)


def taken(windows: WindowAssembler, runs: list[Run]) -> list[tuple[ClosedWindow, dict[str, int]]]:
    made = []
    for run in runs:
        for window, state in windows.take(run, run.counted, lambda _first, _last: 0b111):
            rows = windows.function.windows(state, [window.start_ms], window.size_ms)[window.start_ms]
            made.append((window, {row["product"]: row["n"] for row in rows}))
    return made


def brute_force(events: list[tuple[int, str]], sizes: list[tuple[int, int]]) -> dict[tuple[int, int], dict[str, int]]:
    """Each window by its end and size (ms): every event looked at for every window."""
    windows = {}
    for size, slide in sizes:
        for start in range(-120, 240):
            inside = Counter(product for at, product in events if start <= at < start + size)
            if start % slide == 0 and inside:
                windows[(start + size) * MS, size * MS] = dict(inside)
    return windows


@settings(deadline=None, max_examples=15)
@given(EVENTS, SIZES, st.lists(st.integers(-60, 210), max_size=6, unique=True))
def test_windows_are_what_brute_force_says_however_panes_come(
    events: list[tuple[int, str]], sizes: list[tuple[int, int]], cuts: list[int]
) -> None:
    sizes = [(size, min(size, slide)) for size, slide in sizes]
    function = function_of("WINDOWING " + ", ".join(f"{size} SECONDS EVERY {slide} SECONDS" for size, slide in sizes))
    if function.is_of_panes:
        return
    bounds = [FIRST_PANE, *(MS * cut for cut in sorted(cuts)), END]
    runs = [run_of(function, events, after, upto) for after, upto in pairwise(bounds)]
    made = taken(WindowAssembler(function, FIRST_PANE), runs)
    found = {(window.start_ms + (window.size_ms or 0), window.size_ms): rows for window, rows in made}
    assert found == brute_force(events, sizes)
    assert list(found) == sorted(found), "by their ends, shorter ones first"
    assert len(found) == len(made)
    positions = [window.position for window, _ in made]
    assert positions == sorted(set(positions))
    assert all(window.counted.events == sum(rows.values()) for window, rows in made)


@settings(deadline=None, max_examples=8)
@given(EVENTS, st.integers(-60, 200))
def test_another_master_makes_the_same_windows_of_the_panes_that_are_kept(
    events: list[tuple[int, str]], frontier: int
) -> None:
    function = function_of("WINDOWING 9 SECONDS EVERY 3 SECONDS, 20 SECONDS")
    out = MS * frontier
    every = taken(WindowAssembler(function, FIRST_PANE), [run_of(function, events, FIRST_PANE, END)])
    kept = function.retention_pane(out)
    again = taken(WindowAssembler(function, FIRST_PANE), [run_of(function, events, kept, END)])

    def later(made: list[tuple[ClosedWindow, dict[str, int]]]) -> list[tuple[int, int | None, dict[str, int]]]:
        return [(window.start_ms, window.size_ms, rows) for window, rows in made if window.pane > out]

    assert later(again) == later(every)


def test_who_is_in_some_panes_only_is_partial() -> None:
    function = function_of("WINDOWING 4 SECONDS EVERY 2 SECONDS")
    events = [(second, "a") for second in range(12)]
    first = run_of(function, events, FIRST_PANE, 2 * MS, agents=0b011)
    second = replace(run_of(function, events, 2 * MS, 6 * MS, agents=0b111), partial=0b010)
    third = run_of(function, events, 6 * MS, 10 * MS, agents=0b001)
    made = taken(WindowAssembler(function, 0), [first, second, third])
    assert [(window.start_ms // MS, window.contributors, window.partial) for window, _ in made] == [
        (0, 0b011, 0b000), (2, 0b111, 0b110), (4, 0b111, 0b010), (6, 0b111, 0b110), (8, 0b001, 0b000),
    ]  # fmt: skip


def test_panes_that_nothing_is_known_of_have_nobody_in_them() -> None:
    ledger = PaneIndex()
    function = function_of("WINDOWING 4 SECONDS EVERY 2 SECONDS")
    ledger.add(Run(2 * MS, 8 * MS, 0b11, function.empty_state), {})
    assert ledger.members(0, 6 * MS, 6 * MS) == (0b11, 0)
    assert ledger.members(4 * MS, 6 * MS, 6 * MS) == (0b11, 0b11)
    ledger.forget(20 * MS)
    assert ledger.members(4 * MS, 6 * MS, 6 * MS) == (0, 0)


def test_open_windows_say_when_they_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_windows, "OPEN_BYTES_MAX", 100)
    monkeypatch.setattr(open_windows, "LOOK_PANES", 1)
    function = function_of("WINDOWING 100 SECONDS EVERY 2 SECONDS")
    windows = WindowAssembler(function, FIRST_PANE)
    taken(windows, [run_of(function, [(second, "a") for second in range(0, 20, 2)], FIRST_PANE, 20 * MS)])
    assert windows.is_too_large


def sessions_of(events: list[tuple[int, str]], gap: int) -> list[tuple[str, int, int, int]]:
    """Product, first and last second, and events of each session, one event after the other."""
    found: list[tuple[str, int, int, int]] = []
    for at, product in sorted(events, key=lambda event: event[::-1]):
        if found and found[-1][0] == product and at - found[-1][2] <= gap:
            _, first, _, n = found.pop()
            found.append((product, first, at, n + 1))
        else:
            found.append((product, at, at, 1))
    return sorted(found)


@settings(deadline=None, max_examples=15)
@given(EVENTS, st.integers(1, 30), st.lists(st.integers(-60, 210), max_size=6, unique=True))
def test_sessions_are_what_brute_force_says_however_panes_come(
    events: list[tuple[int, str]], gap: int, cuts: list[int]
) -> None:
    function = function_of(f"WINDOWING SESSION {gap} SECONDS")
    windows = WindowAssembler(function, FIRST_PANE)
    bounds = [FIRST_PANE, *(MS * cut for cut in sorted(cuts)), END]
    found, positions = [], []
    for after, upto in pairwise(bounds):
        run = run_of(function, events, after, upto)
        for window, state in windows.take(run, run.counted, lambda _first, _last: 1):
            positions.append(window.position)
            times = state.select("session.start", "session.end").rows()
            assert min(start for start, _ in times) - window.start_ms in range(window.size_ms or 0)
            found += [(start // MS, end // MS) for start, end in times]
            assert sum(row["n"] for row in function.session_rows(state)) == state["a0.n"].sum()
    assert sorted(found) == sorted((first, last) for _, first, last, _ in sessions_of(events, gap))
    assert positions == sorted(set(positions))


@given(EVENTS, st.integers(1, 3), st.sampled_from(["6 SECONDS EVERY 1 SECOND", "8 SECONDS EVERY 2 SECONDS, 4 SECONDS"]))
def test_windows_with_more_groups_than_are_kept_have_the_same_groups_and_other_as_if_nothing_were_taken_off(
    events: list[tuple[int, str]], max_groups: int, sizes: str
) -> None:
    text = f"SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING {sizes}"
    plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}, max_groups=max_groups)
    function = JobFunction(query.Plan.from_wire(plan.to_wire()))
    assert function.pane_ms is not None
    windows, runs = WindowAssembler(function, FIRST_PANE), []
    ends = sorted({at * MS // function.pane_ms * function.pane_ms for at, _ in events})
    for after, upto in pairwise([-100 * MS, *ends]):
        runs.append(run_of(function, events, after, upto))
    made = []
    for run in runs:
        for window, state in windows.take(run, run.counted, lambda _first, _last: 0b1):
            made.append((window.start_ms + (window.size_ms or 0), window.size_ms or 0))
            end = window.start_ms + (window.size_ms or 0)
            panes = [one.state.filter(pl.col("pane").is_between(window.start_ms, end, closed="left")) for one in runs]
            whole = function.combine([one.with_columns(pane=pl.lit(window.start_ms, dtype=pl.Int64)) for one in panes])
            assert state.sort("hash").equals(whole.sort("hash"), null_equal=True)
    assert made == sorted(set(made)), "each window once, in order"
