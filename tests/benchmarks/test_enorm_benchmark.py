"""The benchmark of fused operators: its jobs are those that the paper describes, and no row is left out."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from benchmarks.enorm import fusion_figures
from benchmarks.enorm.random_jobs import ATTRIBUTES, CHANGE_MAX, SENT, random_job


@pytest.mark.parametrize("operators", [50, 150])
def test_jobs_are_made_as_the_paper_says(operators: int) -> None:
    draw = random.Random(3)
    longest = []
    for _ in range(40):
        job = random_job(operators, draw)
        sizes = [mask.bit_count() for mask in job.attributes]
        assert (len(sizes), sizes[0]) == (operators, ATTRIBUTES // 2)
        assert all(1 <= size <= ATTRIBUTES for size in sizes)
        assert max(abs(one - other) for one, other in pairwise(sizes)) <= CHANGE_MAX
        sent: Counter[int] = Counter()
        level = [0] * operators
        for one, other, rows in job.edges:
            sent[one] += rows
            level[other] = level[one] + 1
        assert max(sent.values()) <= SENT * (1 + 1e-12)
        assert {level[other] - level[one] for one, other, _ in job.edges} == {1}
        longest.append(max(level) + 1)
    assert min(longest) >= 3
    assert max(longest) <= 0.75 * operators
    assert max(longest) > 2 * min(longest)


def test_every_row_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_figures, "JOBS_QUICK", 3)
    lines = fusion_figures.fused_jobs(quick=True)
    for operators in (50, 100, 150):
        own = [line for line in lines if f" {operators} operators" in line.case]
        assert Counter(line.case.split(",")[0] for line in own if "figure" in line.case) == {
            "figure 14": 4,
            "figure 15": 6,
        }
        (worse,) = [line for line in own if "more traffic" in line.case]
        assert (worse.value, worse.met) == (0, True)
