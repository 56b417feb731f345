"""The jobs of a fleet as people list them."""

from __future__ import annotations

from agent.control.messages import Job
from elf.listing import Listing

TITLES = ("APP", "STREAM", "KIND", "AGENTS", "UP TO", "MASTER", "OWNER", "QUERY")


def listed_jobs(found: list[Job]) -> Listing:
    """Stages come after their job."""
    rows = [
        [
            job.app,
            job.stream,
            "once" if job.bounded else "live",
            f"{job.agents} of {job.expected}",
            job.frontier,
            job.master,
            job.creator or "-",
            job.query,
        ]
        for job in _with_stages(found)
    ]
    return Listing(TITLES, rows, "the fleet runs no jobs, as far as this agent has heard")


def _with_stages(found: list[Job]) -> list[Job]:
    """In the order in which they were heard of, but for stages, which come after their job."""
    places: dict[tuple[str, str], int] = {}
    for job in found:
        places.setdefault((job.part_of or job.app, job.creator), len(places))
    return sorted(found, key=lambda job: (places[job.part_of or job.app, job.creator], bool(job.part_of)))
