"""Long work of an agent is done in pieces where results of some job have to be out in time."""

from __future__ import annotations

import pytest
from memory_fleet import Fleet
from recording_client import client_of

from overlay import app_id


@pytest.mark.parametrize("miss", ["LATE", "PARTIAL"])
def test_slices_are_a_tenth_of_the_shortest_limit_of_the_jobs_present(miss: str) -> None:
    fleet = Fleet(1)
    ingest = fleet.agents[0].ingest
    long = ingest.slice_s()
    for name, limit_ms in (("slower", 800), ("quick", 400)):
        within = f"WITHIN {limit_ms} MILLISECONDS ELSE {miss}"
        fleet.submit(f"SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND {within}", name, bounded=False, grace_ms=0)
    fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND", "patient", bounded=False)
    assert ingest.slice_s() == pytest.approx(0.04)
    client_of(fleet.agents[0]).stop(app_id("quick", b""), fleet.now)
    fleet.settle()
    assert ingest.slice_s() == pytest.approx(0.08)
    client_of(fleet.agents[0]).stop(app_id("slower", b""), fleet.now)
    fleet.settle()
    assert ingest.slice_s() == long
