"""Which versions of a job fill in its windows, and which jobs cannot be filled in."""

from __future__ import annotations

import msgspec
import pytest
from live_world import BORN_MS, COUNT, version

from elf.batch.backfill.missing_windows import versions_of
from elf.batch.reconcile.live_results import LiveJob, VersionLine, read_log
from elf.errors import ElfError


def job(*versions: VersionLine) -> LiveJob:
    return read_log(map(msgspec.json.encode, versions), "shop")


def test_it_is_the_last_life_of_a_job_that_counts() -> None:
    first, again = version(number=3), version(born_ms=BORN_MS + 1)
    update = version("SELECT COUNT(*) FROM events WINDOWING 1 SECOND", 2, born_ms=BORN_MS + 1)
    assert versions_of(job(update, first, again), "shop") == [again, update]


def test_two_jobs_of_one_name_are_asked_about() -> None:
    mine, theirs = version(app_id="01" * 16, creator="ann"), version(app_id="02" * 16, creator="bob")
    with pytest.raises(ElfError, match="say which of shop@ann, shop@bob"):
        versions_of(job(mine, theirs), "shop")
    lines = [msgspec.json.encode(one) for one in (mine, theirs)]
    assert versions_of(read_log(lines, "shop@bob"), "shop@bob") == [theirs]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"maps": True}, "code maps events"),
        ({"drives": True}, "cuts its batches"),
    ],
)
def test_what_only_its_code_can_compute_is_refused(made: dict[str, bool], why: str) -> None:
    with pytest.raises(ElfError, match=why):
        versions_of(job(version(COUNT, **made)), "shop")


def test_that_code_maps_events_is_known_if_any_master_knew() -> None:
    knows, does_not = version(maps=True), version()
    for lines in ((knows, does_not), (does_not, knows)):
        assert [one.maps for one in job(*lines).versions.values()] == [True]
