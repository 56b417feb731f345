"""Three minutes of chaos among real agents on hosts of their own: every window is held against the logs."""

from __future__ import annotations

import random

import pytest

from benchmarks.chaos import Extent, run

pytestmark = pytest.mark.net
AGENTS = 8
SECONDS = 180.0


def test_three_minutes_of_chaos_leave_no_window_wrong() -> None:
    seed = random.randrange(1 << 32)
    lines = {line.case: line for line in run(Extent(AGENTS, SECONDS, seed))}
    wrong = [f"{case}: {line.value:g}" for case, line in lines.items() if line.met is False]
    assert not wrong, f"seed {seed}: {wrong}"
    kinds = {case for case in lines if case.startswith("faults: ")}
    assert len(kinds) >= 5, f"seed {seed}: only {kinds}"
