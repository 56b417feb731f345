"""Every aggregate function, however events are dealt and merged, is what it is in plain Python."""

from __future__ import annotations

from random import Random

import pytest
from every_function import (
    COUNT,
    EVENTS,
    EVERY,
    MODELS,
    PARAMETERS,
    Event,
    aggregates_of,
    blocks,
    check_results,
    layout_of,
    merged,
    sent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from cbt.aggregates.functions import FUNCTIONS

FEW = settings(max_examples=max(1, settings.default.max_examples // 5))


def test_no_function_is_forgotten() -> None:
    assert set(MODELS) == {*FUNCTIONS, "spread"}
    required = {name for name, one in FUNCTIONS.items() if any(parameter.required for parameter in one.parameters)}
    assert required <= set(PARAMETERS)


@pytest.mark.parametrize("function", EVERY)
@FEW
@given(events=EVENTS, agents=st.integers(1, 7), order=st.randoms())
def test_dealing_and_merging_change_nothing(function: str, events: list[Event], agents: int, order: Random) -> None:
    layout = layout_of([COUNT, *aggregates_of(function)])
    whole = layout.combine(layout.lift(block) for block in blocks(events))
    dealt = [[layout.lift(block) for block in blocks(events[agent::agents])] for agent in range(agents)]
    frames = [sent(layout, layout.combine(frames)) for frames in dealt]
    together = merged(layout, frames, order)
    assert together.schema == layout.schema
    assert together.equals(whole)
    assert layout.combine([together]).equals(together)
    check_results(layout, together, events)
