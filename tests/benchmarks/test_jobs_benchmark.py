"""The benchmark of jobs: its simulated fleets behave as processes do, and each of its figures is measured."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from agent.programs.confinement import refusal
from benchmarks.jobs import (
    ad_hoc,
    asking,
    changes,
    changes_simulated,
    loops,
    many_jobs,
    own_aggregates,
    paper_load,
    real_programs,
    shuffling,
    shuffling_simulated,
    write_chart,
)
from benchmarks.jobs.changes_simulated import CODE, FILTER, FILTER_TOLD, NOTICE, change
from benchmarks.jobs.charts import PANELS
from benchmarks.jobs.figures import FULL, QUICK
from benchmarks.jobs.fleets import program
from benchmarks.jobs.lines import at_most
from benchmarks.jobs.simulated_agents import LINK_S, SimulatedAgents
from benchmarks.report import Comparison

SQL = "SELECT product, SUM(clicks) AS clicks FROM web{where} GROUP BY product WINDOWING 10 SECONDS"
contained = pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}")


def value(lines: list[Comparison], case: str) -> float:
    return next(line.value for line in lines if line.case == case)


def test_a_change_reaches_all_simulated_agents_in_the_time_that_messages_and_handling_take() -> None:
    fleet = SimulatedAgents(seed=1, size=12)
    key = fleet.run_job(SQL.format(where=""), "clicks")
    for number in (1, 2):
        spent_s = sum(fleet.spent_s.values())
        query = SQL.format(where=f" WHERE clicks > {number}")
        ran_s, told_s = change(fleet, key, number + 1, lambda: fleet.update(key, query))  # noqa: B023 - called at once
        assert 3 * LINK_S < ran_s <= told_s
        assert all(agent.status().jobs[0].version == number + 1 for agent in fleet.agents)
        assert sum(fleet.spent_s.values()) > spent_s


@contained
def test_notices_filters_and_code_reach_simulated_agents() -> None:
    lines = changes_simulated.run(6, 1)
    assert LINK_S * 1000 < value(lines, f"{NOTICE}: 6") < value(lines, f"{CODE}: 6")
    assert value(lines, f"{FILTER}: 6") <= value(lines, f"{FILTER_TOLD}: 6")
    times = real_programs.measure(program("notices"), starts=2, words=3)
    assert min(times.start_s) > 10 * times.wire_s > 0


@pytest.mark.slow
def test_shuffling_is_measured_for_all_operators_alone_and_at_once() -> None:
    lines = shuffling_simulated.run((3, 5, 7), 1)
    assert [line.value > 0 for line in lines] == [True] * (
        3 * 2 * len(shuffling.OPERATORS) + 2 * len(shuffling.OPERATORS)
    )
    assert {line.target for line in lines} == {None, shuffling_simulated.GROWTH_TARGET}


def test_the_growth_is_held_against_a_straight_line() -> None:
    (straight,) = shuffling_simulated.growth("time", {20: 10.0, 80: 20.0, 320: 30.0, 1280: 40.0})
    assert (straight.value, straight.met) == (1.0, True)
    (steep,) = shuffling_simulated.growth("time", {20: 10.0, 80: 20.0, 320: 40.0, 1280: 160.0})
    assert steep.met is False


def test_the_papers_load_brings_every_window() -> None:
    lines = paper_load.run(4, 10.0)
    assert lines[0].met, lines[0]
    assert 0 < lines[1].value <= lines[2].value


def test_an_own_aggregate_gives_what_the_built_in_one_does() -> None:
    assert all(line.value > 0 for line in own_aggregates.run(100))


@contained
@pytest.mark.live
def test_a_loop_goes_round_among_agents() -> None:
    lines = loops.run(2, 10)
    assert 0 < lines[0].value <= lines[1].value


@contained
@pytest.mark.live
@pytest.mark.slow
def test_figures_of_agent_processes_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_jobs, "SETTLE_S", 2.0)
    monkeypatch.setattr(many_jobs, "REST_S", 2.0)
    windows, started, *_ = many_jobs.run(2, 6, 10.0)
    assert (windows.met, windows.target) == (True, 100.0)
    assert started.value > 0
    for lines in (changes.run(2, 2), shuffling.run(2, 2), ad_hoc.run(2, 2_000), asking.run(2, 4)):
        assert all(line.value > 0 for line in lines), lines


def test_programs_have_other_constants_where_they_are_to() -> None:
    assert b"\nSTEPS = 7\n" in program("loop", STEPS=7)
    with pytest.raises(AssertionError, match="PACES"):
        program("loop", PACES=7)


def test_every_figure_has_a_name_of_its_own_and_quick_ones_are_among_them() -> None:
    names = [figure.name for figure in FULL]
    assert len(names) == len(set(names))
    assert {figure.name for figure in QUICK} <= set(names)


def test_all_panels_are_drawn(tmp_path: Path) -> None:
    labels = [label for panel in PANELS for label in panel.labels]
    write_chart([at_most(f"{label}: {place}", 2.0, "ms") for label in labels for place in "ab"], tmp_path / "all.svg")
    texts = {text.text for text in ElementTree.parse(tmp_path / "all.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert {*labels, *(f"{panel.title}, ms" for panel in PANELS)} <= texts
