"""Compares expressions as agents evaluate them with the same written by hand in Polars, in one process on one frame."""

import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, throughput
from query import EventStage, analyze, parse

from .by_hand import MEASURED, Measured
from .requests import SCHEMA, requests

LABEL = "expressions"
TARGET = 0.8
FULL, QUICK = (1_000_000, 15), (200_000, 5)
"""Rows, and how often each is run."""


def run(rows: int, rounds: int) -> list[Comparison]:
    """All queries, in turn. Raises BenchmarkError where both do not give the same."""
    frame = requests(rows)
    return [_compare(measured, frame, rounds) for measured in MEASURED]


def _compare(measured: Measured, frame: pl.DataFrame, rounds: int) -> Comparison:
    print(measured.name, file=sys.stderr, flush=True)
    stage = EventStage(analyze(parse(measured.query), {"web": SCHEMA}))

    def by_elf() -> pl.DataFrame:
        return stage.apply(frame)

    def by_hand() -> pl.DataFrame:
        return measured.by_hand(frame.lazy()).collect()

    try:
        assert_frame_equal(by_elf(), by_hand(), rel_tol=0)
    except AssertionError as error:
        raise BenchmarkError(f"{measured.name}: ELF QL and Polars disagree: {error}") from None
    ours, theirs = _medians(by_elf, by_hand, rounds)
    speeds = (frame.height / ours / 1e6, frame.height / theirs / 1e6)
    return throughput(
        "query", f"{LABEL}: {measured.name}", speeds[0], "M events/s", "Polars by hand", speeds[1], TARGET
    )


def _medians(one: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Their median seconds; they take turns, so that a busy machine is bad luck of both."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for place in (0, 1) if number % 2 else (1, 0):
            begin = perf_counter()
            (one, other)[place]()
            seconds[place].append(perf_counter() - begin)
    return statistics.median(seconds[0]), statistics.median(seconds[1])
