"""The figures of the latency model: errors are counted as they are, misses are lost, and charts and tables have all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.latency import charts, publish
from benchmarks.latency.model.accuracy import BESIDE, Bounds, Judged, Latency, lines_of, phase_lines
from benchmarks.latency.model.real import FULL, QUICK, RealSetting, beside_others
from benchmarks.latency.model.search import fleet
from benchmarks.latency.model.simulated import FLEET
from benchmarks.latency.model.sustaining import Workload, geometric_mean
from benchmarks.latency.model.window_simulation import Links, simulated
from query.latency import AgentClass, Distribution, Measured, Phase, Setting

BOUNDS = Bounds(0.1, 0.2, 95.0, 95.0)


def judged(label: str, predicted: float, measured: float) -> Judged:
    latency = Latency(predicted, 2 * predicted)
    one = Judged(label, latency, latency, 4 * predicted, {Phase.SEAL: predicted, Phase.TAIL: 1.0})
    one.after(Latency(measured, 2 * measured), {Phase.SEAL: measured, Phase.TAIL: 0.001})
    return one


def test_settings_that_are_missed_are_lost() -> None:
    found = [judged("a", 1.0, 1.05), judged("b", 1.0, 2.0), judged("c", 1.0, float("inf"))]
    lines = {line.case: line for line in lines_of(FLEET, found, BOUNDS)}
    near = lines[f"{FLEET}, 3 settings, whose mean is within 10%"]
    assert (near.value, near.met) == (pytest.approx(100 / 3), False)
    assert lines[f"{FLEET}, mean {BESIDE}: b"].rival_value == pytest.approx(2_000)
    assert lines[f"{FLEET}, 3 settings, greatest error of the p99"].value == pytest.approx(100, rel=0.01)


def test_short_phases_are_not_judged() -> None:
    (summary, seal) = phase_lines(FLEET, [judged("a", 1.0, 1.05), judged("b", 1.0, 2.0)], 95.0)
    assert (summary.value, summary.met) == (50, False)
    assert seal.case.endswith(Phase.SEAL.label)


def test_the_chart_and_the_table_have_what_was_measured(tmp_path: Path) -> None:
    report = lines_of(FLEET, [judged("128 agents", 1.0, 1.05), judged("1,280 agents", 1.0, 2.0)], BOUNDS)
    charts.write_chart(report, tmp_path / "latency.svg")
    drawn = (tmp_path / "latency.svg").read_text()
    assert drawn.count("<polyline") == 4
    assert "measured" in drawn
    fewer = lines_of(FLEET, [judged("128 agents", 1.0, 1.05)], BOUNDS)
    assert publish.renewed(report, fewer) == fewer
    assert len(publish.renewed(report, [replace(fewer[0], case="search, simulated")])) == len(report) + 1
    table = publish.section(report)
    assert "**missed**" in table
    assert "128 agents" not in table


def test_settings_held_out_are_none_that_was_measured() -> None:
    assert len(set(FULL)) == len(FULL) >= 40
    assert {one.agents for one in FULL} == {1, 8, 16}
    for one in (*FULL, *QUICK):
        assert one.base == RealSetting(one.agents, one.groups, is_busy=one.is_busy)
        assert one != one.base
        assert one.base.due_looks


def test_seals_of_others_go_first() -> None:
    phases = {phase: Distribution.constant(0.01) for phase in Phase}
    known = Measured(pane=0.25, classes=(AgentClass(2, 10.0, phases),), phases=phases)
    (beside,) = beside_others(known, 2).classes
    assert sum(one.mean for one in beside.sealed_before) == pytest.approx(0.03)


def test_a_simulated_window_waits_for_the_longest_way() -> None:
    """The root hears of its child at once, and of that one's child a second later."""
    links = Links((2, 0, 1), (0, 0, 1), (0.0, 0.001, 1.0), 0.0, 0.0)
    truth = replace(fleet(3), links=(links,))
    record = simulated(truth, Setting(grace=0.0, on_due=True), 50, np.random.default_rng(1))
    assert 1.0 < record.latencies.min() < record.latencies.max() < 1.6
    assert record.last_part[Phase.UPLINK].min() > 1.0
    assert len(record.work_s) == 3


def test_a_rate_is_sustained_up_to_the_limit() -> None:
    work = Workload(fleet(3), 0.4, Setting(grace=0.05, on_due=True), 60)
    speed = work.largest_speed(work.base)
    assert speed > 1
    assert not work.run(work.base, 2 * speed).is_valid
    assert work.largest_speed(Setting(grace=0.5)) == 0, "GRACE alone is longer than the limit"
    assert geometric_mean({"one": 2.0, "other": 8.0}) == pytest.approx(4)
    assert geometric_mean({"one": 2.0, "other": 0.0}) == 0
