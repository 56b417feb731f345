"""What an agent keeps of panes that are out is merged along the job's windows: few frames, and the same windows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import query
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.panes import merged_panes
from agent.runtime.ingest.panes.pane_log import PaneLog
from agent.runtime.master.windows import ClosedWindow, WindowAssembler
from agent.runtime.model.incomplete import Publication
from agent.runtime.model.panes import FIRST_PANE, Counts, Run

MS = 1000
MINUTE = 60 * MS
AGGREGATES = "COUNT(*) AS n, MIN(x) AS least, COUNT(DISTINCT x) AS different"
Event = tuple[int, str, int]
"""When (seconds), a key and a value."""
EVENTS = st.lists(st.tuples(st.integers(0, 23), st.sampled_from("abc"), st.integers(-9, 9)), max_size=30)
SIZES = st.lists(
    st.tuples(st.integers(1, 20), st.integers(3, 20)), min_size=1, max_size=3, unique_by=lambda one: one[0]
)


def function_of(windows: str, aggregates: str = AGGREGATES) -> JobFunction:
    text = f"SELECT k, {aggregates} FROM web GROUP BY k WINDOWING {windows}"
    plan = query.analyze(query.parse(text), {"web": query.Schema({"x": "integer"}, open=True)})
    return JobFunction(query.Plan.from_wire(plan.to_wire()))


def run_of(function: JobFunction, events: list[Event], after: int, upto: int) -> Run:
    """What an agent seals of the events in (after, upto]."""
    schema = {"@time": pl.Int64, "k": pl.String, "x": pl.Int64}
    frame = pl.DataFrame([(MS * at, key, x) for at, key, x in events], schema, orient="row")
    frame = function.in_range(frame).filter(pl.col("pane").is_between(after, upto, closed="right"))
    store = function.new_store()
    store.insert(function.select(frame))
    counted = {pane: Counts(events=n) for pane, n in frame["pane"].value_counts(name="n").sort("pane").iter_rows()}
    return Run(after, upto, 1, function.gather(list(store.flush())), counted)


Window = tuple[ClosedWindow, list[dict[str, object]]]


def windows_of(function: JobFunction, runs: list[Run], published: int) -> list[Window]:
    """The windows that a master makes of runs, after those that are out."""
    assembler, made = WindowAssembler(function, FIRST_PANE), list[Window]()
    for run in runs:
        for window, state in assembler.take(run, run.counted, lambda _first, _last: 1):
            rows = function.windows(state, [window.start_ms], window.size_ms)[window.start_ms]
            made.append((window, sorted(map(dict, rows), key=str)))
    return [one for one in made if one[0].pane > published]


def kept(log: PaneLog, function: JobFunction, published: int) -> list[Run]:
    return log.after(function.retention_pane(published), published)


@settings(deadline=None, max_examples=20)
@example([(0, "a", 0)], [(7, 3)], [(1, False), (1, False), (1, False), (3, True), (3, False)], 0, 0)
@given(
    EVENTS,
    SIZES,
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=8, max_size=16),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_the_next_master_makes_the_same_windows_of_fewer_frames(
    events: list[Event], sizes: list[tuple[int, int]], seals: list[tuple[int, bool]], lag: int, behind: int
) -> None:
    """`seals`: panes of each run, and whether all is published then. `behind`: how far a master is (seconds)."""
    function = function_of(", ".join(f"{size} SECONDS EVERY {min(size, slide)} SECONDS" for size, slide in sizes))
    if not function.merges_kept:
        return
    merged, plain = PaneLog(merge_lag_ms=lag * MS), PaneLog()
    sealed = published = -1
    for panes, is_published in seals:
        run = run_of(function, events, sealed, sealed + panes * (function.pane_ms or MS))
        sealed, published = run.upto, run.upto if is_published else published
        for log in (merged, plain):
            log.append(run)
            log.commit(Publication(published), function.retention_pane(published))
        merged.merge(function, published)
    assert merged.frames <= plain.frames
    known = max(published - min(behind, lag) * MS, -1)
    assert windows_of(function, kept(merged, function, known), known) == windows_of(
        function, kept(plain, function, known), known
    )


def log_of(function: JobFunction, panes: int, lag_ms: int = 0) -> PaneLog:
    """What is kept of so many panes that are out, with the same ten keys in each."""
    log, pane_ms = PaneLog(merge_lag_ms=lag_ms), function.pane_ms or MS
    for number in range(panes):
        events = [(number * pane_ms // MS, key, 1) for key in "abcdefghij"]
        pane = number * pane_ms
        log.append(run_of(function, events, pane - pane_ms, pane))
        log.commit(Publication(pane), function.retention_pane(pane))
        log.merge(function, pane)
    return log


def test_a_day_of_panes_of_ten_minutes_is_kept_in_a_handful_of_frames() -> None:
    """The windows of `elf/jobs/lending.py`."""
    function = function_of("10 MINUTES, 30 MINUTES, 1 HOUR, 6 HOURS, 24 HOURS", "COUNT(*) AS n")
    log = log_of(function, 2 * 144 - 1, 5 * MINUTE)
    assert log.frames <= 8, "of 143"
    (first, *_) = log.after(FIRST_PANE)
    assert first.after == 144 * 10 * MINUTE - 10 * MINUTE, "nothing of the day before"
    assert len(first.counted) >= 18 * 6, "18 hours are one frame"


def test_panes_between_which_windows_begin_stay_apart() -> None:
    log = log_of(function_of("60 SECONDS EVERY 1 SECOND", "COUNT(*) AS n"), 200)
    assert log.frames == 59, "each is in a window that the one before is not in"


def test_states_that_are_large_together_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_panes, "MERGED_BYTES_MAX", 100)
    function = function_of("60 SECONDS, 1 SECOND", "COUNT(*) AS n")
    log = log_of(function, 50)
    assert log.frames == 50


@pytest.mark.parametrize("windows", ["60 SECONDS, 1 SECOND EMIT CHANGES", "SESSION 5 SECONDS"])
def test_what_may_be_amended_or_is_in_sessions_is_never_merged(windows: str) -> None:
    assert not function_of(windows, "COUNT(*) AS n").merges_kept


def test_a_master_that_is_far_behind_gets_no_frame_that_is_of_no_use_to_it() -> None:
    function = function_of("60 SECONDS, 1 SECOND", "COUNT(*) AS n")
    log = log_of(function, 50)
    whole, behind = kept(log, function, 49 * MS), kept(log, function, 20 * MS)
    assert whole[0].after < 0 < len(whole[0].counted)
    assert behind[0].after > 20 * MS, "what it gets is sound"
    assert behind == whole[1:]
