"""The benchmark of keyed elements: everybody counts the same keys, and errors of click rates are those of the paper."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from benchmarks.rivals.keys import read_keys, write_keys
from benchmarks.s4.clicks import error_of, rates, traffic_of
from benchmarks.s4.figures import FULL, QUICK


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
