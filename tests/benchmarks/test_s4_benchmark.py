"""The benchmark of keyed elements: everybody counts the same keys, and errors of click rates are those of the paper."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import polars as pl
import pytest

from agent.programs.confinement import refusal
from benchmarks.contender import Answer, parse
from benchmarks.race import output_of
from benchmarks.rivals.keys import read_keys, write_keys
from benchmarks.s4 import quotes, shedding
from benchmarks.s4.clicks import error_of, rates, traffic_of
from benchmarks.s4.counting.simulated import CountingRun, truth_of
from benchmarks.s4.figures import FULL, QUICK
from benchmarks.s4.graphs import CODE, DECLARED

contained = pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}")


def test_keys_are_dealt_to_all_and_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_keys(tmp_path / name, 1_000, shares=4, keys=50)
    shares = [read_keys(path) for path in sorted((tmp_path / "a").iterdir())]
    assert [len(share) for share in shares] == [250] * 4
    assert {len(key) for share in shares for key in share} == {10}
    assert len({key for share in shares for key in share}) == 50
    assert shares == [read_keys(path) for path in sorted((tmp_path / "b").iterdir())]


def test_serves_shed_with_their_clicks_hurt_less_than_events_shed_singly() -> None:
    traffic = traffic_of(300_000)
    truth = rates(*traffic)
    assert 0.09 < len(traffic.clicks) / len(traffic.serves) < 0.14
    assert error_of(truth, truth)[:2] == (0.0, 0.0)
    together = [rows.filter(pl.col("serve").hash(1) % 100 < 36) for rows in traffic]
    singly = [rows.sample(fraction=0.36, seed=seed) for seed, rows in enumerate(traffic)]
    together_error, singly_error = (error_of(rates(*kept), truth) for kept in (together, singly))
    assert 0 < together_error.weighted < 10 < 60 < singly_error.weighted < 70
    nothing = error_of(truth.clear(), truth)
    assert (nothing.weighted, nothing.plain) == (100.0, 100.0)


def test_every_figure_has_a_name_of_its_own_and_quick_ones_are_among_them() -> None:
    names = [figure.name for figure in FULL]
    assert len(names) == len(set(names))
    assert {figure.name for figure in QUICK} <= set(names)


def test_simulated_hosts_count_right_declared_and_in_code_whether_guaranteed_or_not() -> None:
    shares = [pl.Series("key", [f"key-{number % 700}" for number in range(first, first + 3_000)]) for first in (0, 99)]
    for kind, guaranteed in ((DECLARED, False), (DECLARED, True), (CODE, False), (CODE, True)):
        run = CountingRun(shares, kind, guaranteed=guaranteed, measured=True)
        run.run()
        assert Answer(run.rows, run.total, 0) == truth_of(shares)


def test_figure_6_is_without_error_up_to_capacity_and_small_beyond() -> None:
    lines = shedding.run(200_000, (0.5, 2.75), with_targets=False)
    assert all(line.met for line in lines if line.target is not None), lines
    errors = {line.case.partition(": ")[2]: line.value for line in lines if "weighted by serves" in line.case}
    assert errors["0.5 x capacity"] == 0 < errors["2.75 x capacity"] < 10
    (singly,) = (line.value for line in lines if "singly" in line.case)
    assert 60 < singly < 68


@contained
@pytest.mark.live
@pytest.mark.slow
def test_keys_are_counted_on_agents(tmp_path: Path) -> None:
    write_keys(tmp_path, 4_000, shares=2, keys=50)
    for kind in (DECLARED, CODE):
        program = [sys.executable, "-m", "benchmarks.s4.counting.agents", str(tmp_path), "0", kind]
        answer = parse(output_of(kind, program, os.environ)).answer
        assert answer == truth_of([pl.Series("key", read_keys(path)) for path in sorted(tmp_path.iterdir())])


@contained
@pytest.mark.live
@pytest.mark.slow
def test_leading_words_come_in_lists() -> None:
    p50, p99 = quotes.run(2, 4.0, guaranteed=False)
    assert 0 < p50.value <= p99.value < 20_000
