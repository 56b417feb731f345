"""The benchmark of stages in components: rows between stages go as it says, and no line is left out."""

from __future__ import annotations

import pytest

from benchmarks.enorm import fused_stages

KEYS = 40


def test_rows_stay_in_the_process_of_a_component_and_go_as_json_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_stages, "MINUTES", 6)
    apart, half, whole = (fused_stages.run_stages(fused_stages._FAST, places, KEYS) for places in _PLACES)
    assert apart.rows == half.rows == whole.rows == 8 * KEYS
    assert (apart.rows_here, whole.rows_sent) == (0, 0)
    assert apart.rows_sent == whole.rows_here == half.rows_here + half.rows_sent > 10 * KEYS
    assert min(half.rows_here, half.rows_sent) > 0
    assert [one.rows_as_states for one in (apart, half, whole)] == [0, half.rows_here, whole.rows_here]


_PLACES = ((0, 1, 2, 3), (0, 0, 1, 1), (0, 0, 0, 0))


@pytest.mark.slow
def test_every_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_stages, "MINUTES", 6)
    monkeypatch.setattr(fused_stages, "QUICK_KEYS", KEYS)
    lines = fused_stages.staged_jobs(quick=True)
    assert [line.case.split(",")[0] for line in lines] == [
        "section 7.7: the simple job as two components",
        *(f"figure 16: four stages in {components} components" for components in (3, 2, 1)),
    ]
    assert [line.target for line in lines] == [0.95, None, None, 3.0]
