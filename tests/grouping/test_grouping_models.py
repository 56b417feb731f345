"""Groupings choose the workers that models of a few lines choose, event by event."""

from __future__ import annotations

from functools import cache

import pytest
from grouping_models import MODELS, assignment, zipf

from agent.grouping import GROUPINGS, Assignment, Grouping, HashRing, PublishedFish, Report, make_grouping

WORKERS, SOURCE = 12, 5


def made(name: str, workers: Assignment, source: int = SOURCE) -> Grouping:
    return PublishedFish(workers, source) if name == "published" else make_grouping(name, workers, source)


def test_users_name_six_groupings_the_default_first() -> None:
    assert GROUPINGS == ("fish", "shuffle", "fields", "pkg", "dchoices", "wchoices")


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_one_are_dealt_as_the_model_does(name: str, seed: int) -> None:
    workers = assignment(WORKERS)
    grouping = made(name, workers)
    hashes = zipf(1500 if name == "dchoices" else 2300, 1500, 1.2, seed)
    choose = MODELS[name](HashRing(workers.workers), SOURCE)
    for row, key in enumerate(hashes):
        now = row * 0.04
        expected = choose(int(key), now)
        assert int(grouping.assign(hashes[row : row + 1], now)[0]) == expected, f"row {row}"
        if not row:
            grouping.heard(Report(expected, 0.5, 0.25), now)  # all workers are taken to be like the one that has told


ROWS = 2000
HASHES = zipf(ROWS, 3000, 1.1, 3)


@cache
def load_of_single_events(name: str) -> float:
    single = made(name, assignment(WORKERS))
    for row in range(ROWS):
        single.assign(HASHES[row : row + 1], row * 0.01)
    return float(single.sent.max() / single.sent.mean())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [7, 300])
def test_the_fullest_worker_of_blocks_has_no_more_than_that_of_single_events(name: str, rows: int) -> None:
    """Events of a block choose at the same time, so some go elsewhere."""
    whole = made(name, assignment(WORKERS))
    for start in range(0, ROWS, rows):
        whole.assign(HASHES[start : start + rows], start * 0.01)
    assert whole.sent.max() / whole.sent.mean() <= load_of_single_events(name) + 0.06
