"""Panes that agents merge between edges of windows: every window is as if they had not, wherever runs are cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl
import pytest
from seeds import seeds

import query
from agent.runtime.function.consolidated_windows import at_edges
from agent.runtime.function.job_function import JobFunction
from agent.runtime.master.windows import WindowAssembler
from agent.runtime.model.panes import END, FIRST_PANE, Counts, Run
from agent.runtime.reduce.combiner import Combiner

SECOND, PANES = 1000, 60
AGGREGATES = (
    "COUNT(*) AS c, SUM(n) AS s, MIN(n) AS l, MAX(n) AS m, AVG(n) AS a, COUNT(DISTINCT n) AS d, APPROX_MEDIAN(n) AS e"
)
WINDOWS = (
    "7 SECONDS, 10 SECONDS", "6 SECONDS, 8 SECONDS EVERY 4 SECONDS", "20 SECONDS, 30 SECONDS, 40 SECONDS",
    "15 SECONDS EVERY 5 SECONDS, 21 SECONDS", "12 SECONDS EVERY 4 SECONDS, 18 SECONDS",
)  # fmt: skip


def function_of(windows: str, rest: str = "") -> JobFunction:
    text = f"SELECT k, {AGGREGATES} FROM web GROUP BY k {rest} WINDOWING {windows}"
    return JobFunction(query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}))


def run_of(function: JobFunction, agent: int, source: random.Random) -> Run:
    """An agent's run of all panes, some of which are empty, and some not counted at all."""
    panes = [pane * SECOND for pane in range(PANES) if source.random() < 0.8]
    events = [(pane, source.choice("abc"), source.choice([source.randrange(9), 0.1, None])) for pane in panes * 2]
    counted = {pane: Counts(sum(one[0] == pane for one in events)) for pane in panes}
    columns = list(zip(*events, strict=True)) or [(), (), ()]
    frame = pl.DataFrame(
        {"@time": columns[0], "k": columns[1], "n": columns[2]},
        schema={"@time": pl.Int64, "k": pl.String, "n": pl.Float64},
        strict=False,
    )
    store = function.new_store()
    pane_ms = function.pane_ms or 1
    selected = function.select(function.in_range(frame))
    store.insert(selected)
    at = {pane // pane_ms * pane_ms: Counts() for pane in panes}
    for pane, counts in counted.items():
        at[pane // pane_ms * pane_ms] = at[pane // pane_ms * pane_ms].plus(counts)
    return Run(FIRST_PANE, END, 1 << agent, function.gather([one for one in store.flush() if one is not None]), at)


def windows_of(function: JobFunction, runs: Sequence[Run], cuts: Sequence[int]) -> list[tuple[object, ...]]:
    """The windows that a master makes of agents' runs, which come in pieces."""
    combiner = Combiner(lambda states, _upto: function.combine(states))
    for number in range(len(runs)):
        combiner.add_source(number)
    for number, run in enumerate(runs):
        combiner.add(number, run)
    assembler, found = WindowAssembler(function, FIRST_PANE), []
    for upto in (*sorted(set(cuts)), END):
        for run in combiner.ready(upto):
            for window, state in assembler.take(run, run.counted, lambda _first, _last: 0b111):
                rows = function.finish_windows(state, [window.start_ms], window.size_ms)[window.start_ms].rows
                about = (window.start_ms, window.size_ms, window.counted, window.contributors, window.partial)
                found.append((*about, sorted(map(str, rows))))
    return found


@pytest.mark.parametrize("seed", seeds(0, 1, 3, slow=[2, *range(4, 60)]))
def test_every_window_is_as_if_panes_had_been_sent(seed: int) -> None:
    source = random.Random(seed)
    function = function_of(WINDOWS[seed % len(WINDOWS)])
    cuts = [source.randrange(PANES * SECOND) for _ in range(source.randrange(5))]
    runs = [run_of(function, agent, source) for agent in range(3)]
    merged = [at_edges(function, run) for run in runs]
    plain = windows_of(function, runs, cuts)
    assert windows_of(function, [*merged[:2], runs[2]] if seed % 2 else merged, cuts) == plain
    for run, before in zip(merged, runs, strict=True):
        assert run.is_sound(function.pane_ms)
        assert run.state["pane"].n_unique() < before.state["pane"].n_unique()


def test_where_each_pane_ends_a_window_nothing_is_merged() -> None:
    function = function_of("10 SECONDS EVERY 1 SECOND")
    run = run_of(function, 0, random.Random(1))
    assert at_edges(function, run) is run


def test_windows_that_are_shown_before_their_ends_need_their_panes() -> None:
    function = function_of("7 SECONDS, 10 SECONDS", "")
    run = run_of(function, 0, random.Random(1))
    assert at_edges(function, run) is not run
    text = f"SELECT k, {AGGREGATES} FROM web GROUP BY k WINDOWING 10 SECONDS EVERY 5 SECONDS EMIT CHANGES"
    changing = JobFunction(query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}))
    run = run_of(changing, 0, random.Random(1))
    assert at_edges(changing, run) is run
