"""Live jobs with keyed elements over logs of the past: their windows are those of the logs' time."""

from __future__ import annotations

from datetime import datetime

import pytest
from keyed_jobs import counting, keyed_job, words
from memory_fleet import Fleet
from recording_client import client_of

from agent import StreamOptions

HOUR_MS = 3_600_000
BY_HOUR = "SELECT word, MAX(total) AS total FROM Counted GROUP BY word WINDOWING 1 HOUR"


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("guaranteed", [True, False])
def test_windows_of_the_past_close_as_the_time_of_the_logs_passes(size: int, guaranteed: bool) -> None:
    fleet = Fleet(size, streams={"words": StreamOptions("beginning")})
    job = keyed_job(counting(guaranteed=guaranteed), BY_HOUR, bounded=False)
    client_of(fleet.agents[0]).submit(job, fleet.now, fleet.wall_ms)
    fleet.settle()
    fleet.wait_long(2.0)
    began = fleet.wall_ms // HOUR_MS * HOUR_MS - 30 * HOUR_MS
    for hour in range(6):
        for agent in fleet.agents:
            for feed in agent.ingest.feeds():
                fleet.give(agent, feed.key, words("a", "b", at_ms=began + hour * HOUR_MS + 600_000))
        fleet.wait_long(1.0)
    fleet.wait_long(3.0)
    rows = [(result.window_end, row) for result in fleet.results for row in result.rows if row["word"] == "a"]
    found = {round(datetime.fromisoformat(end).timestamp() * 1000): row["total"] for end, row in rows}
    assert found == {began + (hour + 1) * HOUR_MS: (hour + 1) * size for hour in range(1, 5)}
