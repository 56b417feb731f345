"""The spam campaign's job by itself: which query it goes on to."""

from __future__ import annotations

import pytest

import elf
from elf.jobs.spam_campaign import SpamCampaign

PEOPLE = {f"place-{number}": 1 for number in range(10)}


class Side:
    """What the master's agent does for the job."""

    def __init__(self) -> None:
        self.chosen: list[str] = []

    def update(self, query: str, reset: bool) -> None:  # noqa: ARG002
        self.chosen.append(query)

    def log(self, text: str) -> None:
        """Nobody reads it."""


def window(posts: dict[str, int]) -> elf.Window:
    """One of the second version, which asks where sales come from; the job's queries show the first ten places."""
    first = sorted(posts.items(), key=lambda item: -item[1])[:10]
    return elf.Window(
        "spam-campaign", None, None, [{"place": place, "posts": count} for place, count in first], version=2
    )


@pytest.mark.parametrize(
    ("windows", "chosen"),
    [
        ([{"Erewhon": 2, "Oslo": 1}], ["Erewhon"]),
        ([{"Erewhon": 9} | PEOPLE], []),
        ([{"Erewhon": 9} | PEOPLE, {"Erewhon": 13, "Oslo": 4, "Lyon": 2}], ["Erewhon"]),
        ([PEOPLE, PEOPLE], []),
        ([PEOPLE, PEOPLE, PEOPLE], ["query"]),
    ],
)
def test_sales_come_from_everywhere_only_if_there_are_enough_to_tell(
    windows: list[dict[str, int]], chosen: list[str]
) -> None:
    job, side = SpamCampaign(), Side()
    job._elf = side  # type: ignore[assignment]
    for posts in windows:
        job.on_result(window(posts))
    assert side.chosen == chosen
