"""The benchmark of ELF QL: what is written by hand gives the same, and every figure is measured."""

from __future__ import annotations

from benchmarks.query import compiling, expressions
from benchmarks.query.by_hand import MEASURED


def test_expressions_by_hand_give_the_same() -> None:
    lines = expressions.run(2_000, 1)
    assert [line.case for line in lines] == [f"{expressions.LABEL}: {measured.name}" for measured in MEASURED]
    assert all(line.target == expressions.TARGET and line.ratio is not None for line in lines)


def test_compiling_is_measured_over_the_queries_of_the_tests() -> None:
    lines = {line.case: line for line in compiling.run(1)}
    assert len(list(compiling.fixtures())) > 150
    assert lines["compiling: largest plan"].met
    assert lines["compiling: text to plan, median"].value > 0
