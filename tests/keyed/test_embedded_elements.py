"""Bounded jobs with keyed elements on embedded fleets: what they answer does not depend on the number of agents."""

from __future__ import annotations

import random

import pytest
from keyed_jobs import counting, keyed_job, words
from seeds import seeds

from agent import EmbeddedFleet

BLOCKS, ROWS = 40, 50


def answered(agents: int, *, guaranteed: bool) -> list[tuple[str | None, list[dict[str, object]]]]:
    """The windows over blocks that are dealt to the agents; times are in no order."""
    fleet = EmbeddedFleet(agents, ["words"], random.Random(0))
    master = fleet.submit(keyed_job(counting(guaranteed=guaranteed), bounded=True))
    for block in range(BLOCKS):
        found = ("abcde"[block * row % 5] * (1 + block % 3) for row in range(ROWS))
        parsed = words(*found, at_ms=1000 * (block % 7) + block)
        fleet.insert(block % agents, "words", parsed, (block + 1) * ROWS)
    results = [(result.window_start, list(result.rows)) for result in fleet.end_of_input()]
    assert master.failure is None
    return results


@pytest.mark.parametrize("guaranteed", seeds(True, slow=[False]))
def test_results_over_elements_are_the_same_on_one_agent_and_on_eight(guaranteed):
    alone = answered(1, guaranteed=guaranteed)
    assert len(alone) == 7
    assert sum(row["total"] for row in alone[-1][1]) <= BLOCKS * ROWS
    assert answered(8, guaranteed=guaranteed) == alone
