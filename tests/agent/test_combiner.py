"""The barrier: nothing leaves before everyone is there, and nobody is ever counted twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.model.panes import END, FIRST_PANE, Counts, Run, add_counted
from agent.runtime.reduce.combiner import Combiner

PANES = range(12)


def add_up(states: list[pl.DataFrame], _upto: int = 0) -> pl.DataFrame:
    return pl.concat([run_of(0, 0, 0, {}).state, *states]).group_by("pane").agg(pl.col("n").sum()).sort("pane")


def run_of(after: int, upto: int, contributors: int, amounts: dict[int, int]) -> Run:
    inside = {pane: n for pane, n in amounts.items() if after < pane <= upto}
    state = pl.DataFrame({"pane": inside.keys(), "n": inside.values()}, schema={"pane": pl.Int64, "n": pl.Int64})
    return Run(after, upto, contributors, state, {pane: Counts(n) for pane, n in inside.items()})


def totals(runs: list[Run]) -> dict[int, int]:
    summed = add_up([run.state for run in runs])
    return dict(zip(summed["pane"], summed["n"], strict=True))


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[dict[int, int]], list[tuple[int, Run]]]:
    """Per source its amounts by pane, and its runs in a random interleaving."""
    sources = draw(st.integers(1, 5))
    amounts = [draw(st.dictionaries(st.sampled_from(PANES), st.integers(1, 9))) for _ in range(sources)]
    queues = []
    for source in range(sources):
        cuts = [FIRST_PANE, *sorted(draw(st.sets(st.sampled_from(PANES), max_size=4))), END]
        queues.append([run_of(a, b, 1 << source, amounts[source]) for a, b in pairwise(cuts)])
    order = []
    while any(queues):
        source = draw(st.sampled_from([number for number, queue in enumerate(queues) if queue]))
        order.append((source, queues[source].pop(0)))
    return amounts, order


@given(deliveries(), st.data())
def test_every_source_is_counted_once_in_every_pane(
    case: tuple[list[dict[int, int]], list[tuple[int, Run]]], data: st.DataObject
) -> None:
    amounts, order = case
    combiner = Combiner(add_up)
    for source in range(len(amounts)):
        combiner.add_source(source)
    out: list[Run] = []
    for source, run in order:
        combiner.add(source, run)
        if data.draw(st.booleans()):
            combiner.add(source, run)
        if data.draw(st.booleans()):
            out += combiner.ready(data.draw(st.sampled_from(PANES)))
        out += combiner.ready()
    assert [run.after for run in out] == [FIRST_PANE, *(run.upto for run in out[:-1])]
    assert out[-1].upto == END
    assert all(run.contributors == (1 << len(amounts)) - 1 for run in out)
    expected = {pane: sum(amount.get(pane, 0) for amount in amounts) for pane in PANES}
    assert totals(out) == {pane: n for pane, n in expected.items() if n}
    counted = add_counted(run.counted for run in out)
    assert {pane: counts.events for pane, counts in counted.items()} == totals(out)


def test_nothing_leaves_before_every_source_is_there() -> None:
    combiner = Combiner(add_up)
    combiner.add_source("left")
    combiner.add_source("right")
    combiner.add("left", run_of(FIRST_PANE, END, 1, {3: 5}))
    assert combiner.ready() == []
    combiner.add("right", run_of(FIRST_PANE, 3, 2, {3: 7}))
    (first,) = combiner.ready()
    assert (first.upto, totals([first])) == (3, {3: 12})
    combiner.remove_source("right")
    (rest,) = combiner.ready()
    assert (rest.after, rest.upto, rest.contributors) == (3, END, 1)


def test_overlapping_contributors_are_refused_and_the_larger_set_stays() -> None:
    combiner = Combiner(add_up)
    for source in ("one", "two"):
        combiner.add_source(source)
    combiner.add("one", run_of(FIRST_PANE, END, 0b01, {0: 1}))
    combiner.add("two", run_of(FIRST_PANE, END, 0b11, {0: 10}))
    (run,) = combiner.ready()
    assert (run.contributors, totals([run]), combiner.refused) == (0b11, {0: 10}, 1)


def test_what_comes_loose_twice_is_kept_once() -> None:
    combiner = Combiner(add_up)
    combiner.add_source("one")
    for _ in range(3):
        combiner.add_detached(run_of(FIRST_PANE, END, 0b10, {0: 10}))
    assert (combiner.waiting_runs, combiner.refused) == (1, 2)
    combiner.add("one", run_of(FIRST_PANE, END, 0b01, {0: 1}))
    (run,) = combiner.ready()
    assert (run.contributors, totals([run])) == (0b11, {0: 11})


def test_panes_that_a_source_passes_over_are_without_it() -> None:
    combiner = Combiner(add_up)
    for source in ("child", "self"):
        combiner.add_source(source)
    combiner.add("child", run_of(5, END, 0b10, {7: 1}))
    combiner.add("self", run_of(FIRST_PANE, END, 0b01, {3: 1, 7: 1}))
    early, late = combiner.ready()
    assert (early.upto, early.contributors, totals([early])) == (5, 0b01, {3: 1})
    assert (late.upto, late.contributors, totals([late]), combiner.refused) == (END, 0b11, {7: 2}, 0)


@given(deliveries(), st.data())
def test_a_run_that_comes_after_later_ones_is_counted_too(
    case: tuple[list[dict[int, int]], list[tuple[int, Run]]], data: st.DataObject
) -> None:
    """It was lost and is sent again: in its panes if they are still here, else on its own, and once in any case."""
    amounts, _ = case
    runs = {
        (source, pane): run_of(pane, pane + 1, 1 << source, amounts[source])
        for source in range(len(amounts))
        for pane in range(-1, 11)
    }
    order = sorted(runs, key=lambda one: (one[1], one[0]))
    lost = data.draw(st.sets(st.sampled_from(order), max_size=8))
    again = data.draw(st.permutations(sorted(lost)))
    combiner = Combiner(add_up, frontier=-1)
    for source in range(len(amounts)):
        combiner.add_source(source)
    out, late = [], []
    for one in order:
        if one not in lost:
            late.append(combiner.add(one[0], runs[one]))
        if data.draw(st.booleans()):
            out += combiner.ready()
        if again and data.draw(st.booleans()):
            late += [combiner.add(again[0][0], runs[again[0]]) for _ in range(2)]
            again.pop(0)
    late += [combiner.add(source, runs[source, pane]) for source, pane in again]
    for source in range(len(amounts)):
        combiner.add(source, run_of(11, END, 1 << source, amounts[source]))
    out += combiner.ready()
    expected = {pane: sum(amount.get(pane, 0) for amount in amounts) for pane in PANES}
    assert totals([*out, *(run for run in late if run is not None)]) == {pane: n for pane, n in expected.items() if n}


def test_what_is_no_run_of_a_source_is_refused() -> None:
    """Repeated, of a stranger, or with its end before its start; what nobody has contributed is dropped."""
    combiner = Combiner(add_up)
    combiner.add_source("child")
    combiner.add("stranger", run_of(FIRST_PANE, END, 1, {}))
    combiner.add("child", run_of(9, 5, 1, {}))
    combiner.add("child", run_of(5, 5, 1, {}))
    assert (combiner.refused, combiner.ready()) == (3, [])
    combiner.add("child", run_of(FIRST_PANE, 5, 0, {3: 1}))
    combiner.add("child", run_of(FIRST_PANE, 4, 1, {3: 1}))
    (run,) = combiner.ready()
    assert (run.upto, run.contributors, totals([run]), combiner.refused) == (5, 0, {}, 4)


def test_a_change_of_contributors_cuts_the_run() -> None:
    combiner = Combiner(add_up)
    for source in ("child", "self"):
        combiner.add_source(source)
    combiner.add("child", run_of(FIRST_PANE, 4, 0b110, {1: 1, 4: 1}))
    combiner.add("child", run_of(4, END, 0b100, {7: 1}))
    combiner.add("self", run_of(FIRST_PANE, END, 0b001, {1: 1, 7: 1}))
    early, late = combiner.ready()
    assert (early.upto, early.contributors, totals([early])) == (4, 0b111, {1: 2, 4: 1})
    assert (late.upto, late.contributors, totals([late])) == (END, 0b101, {7: 2})


def test_who_is_there_in_part_is_so_only_in_the_panes_it_said_so_of() -> None:
    combiner = Combiner(add_up)
    for source in (0, 1):
        combiner.add_source(source)
        for pane in (0, 1, 2):
            run = run_of(FIRST_PANE if pane == 0 else pane - 1, pane, 1 << source, {pane: 1})
            combiner.add(source, replace(run, partial=2 if (source, pane) == (1, 1) else 0))
    runs = combiner.ready()
    assert [(run.upto, run.contributors, run.partial) for run in runs] == [(0, 3, 0), (1, 3, 2), (2, 3, 0)]
    assert totals(runs) == {0: 2, 1: 2, 2: 2}
