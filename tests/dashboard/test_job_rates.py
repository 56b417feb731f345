"""Rates of jobs, from one look to the next. No browser is needed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agent.control.messages import JobEntry
from elf.dashboard.job_rates import JobRates

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def job(after_s: float | None, events: int, *, bounded: bool = False, app_id: str = "ab") -> JobEntry:
    frontier = None if after_s is None else (BEGAN + timedelta(seconds=after_s)).isoformat()
    return JobEntry("web-1", app_id, "web", "", "agent-1", 1, 1, 8, 8, bounded, frontier, events=events)


def test_a_rate_is_that_of_the_time_that_was_published_between_looks() -> None:
    rates = JobRates()
    assert rates.of([job(None, 0)]) == {}
    assert rates.of([job(-0.001, 0)]) == {"ab": 0.0}
    assert rates.of([job(0, 1000)]) == {}, "nobody knows since when"
    assert rates.of([job(0, 1000)]) == {}
    assert rates.of([job(10, 2000)]) == {"ab": 100.0}
    assert rates.of([job(10, 2000)]) == {"ab": 100.0}
    assert rates.of([job(20, 2000)]) == {"ab": 50.0}


def test_a_rate_forgets_what_is_more_than_a_minute_old_and_jobs_that_are_gone() -> None:
    rates = JobRates()
    for second in range(0, 200, 10):
        found = rates.of([job(second, 1000 if second < 100 else 1000 + 10 * (second - 100))])
    assert found["ab"] == pytest.approx(10.0)
    assert rates.of([]) == {}
    assert rates.of([job(300, 5000)]) == {}, "seen for the first time"


def test_jobs_that_end_have_no_rate_and_a_count_that_falls_begins_anew() -> None:
    rates = JobRates()
    for second in (0, 10):
        assert rates.of([job(second, second, bounded=True)]) == {}
    assert [rates.of([job(second, events)]) for second, events in ((0, 9), (10, 3), (20, 13))] == [{}, {}, {"ab": 1.0}]
