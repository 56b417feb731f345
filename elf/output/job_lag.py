"""Says how far the results of a job have come, of what an agent tells of it."""

from __future__ import annotations

from datetime import datetime

from agent.control.messages import JobEntry


def published_until_s(job: JobEntry) -> float | None:
    """The end of the job's last window, in epoch seconds; None of a job that ends, or has no window out."""
    if job.frontier is None or job.bounded:
        return None
    try:
        return datetime.fromisoformat(job.frontier).timestamp()
    except ValueError:
        return None


def lag_s(job: JobEntry, now_s: float) -> float | None:
    """Time since the end of the job's last window; None of a job that ends, or has no window out."""
    until_s = published_until_s(job)
    return None if until_s is None else max(0.0, now_s - until_s)
