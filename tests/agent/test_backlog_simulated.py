"""A live job that begins with the past: many windows at once, while its masters stand still and change."""

from __future__ import annotations

import pytest
from lives import JOB
from recording_client import client_of
from seeds import seeds
from simulated_fleet import SimulatedFleet, key_of, published

from agent.runtime.master import job_master, job_masters
from agent.runtime.master.job_master import PAST_S
from agent.runtime.master.results import result_log
from agent.runtime.messages.client_events import WindowsLost
from agent.runtime.model.panes import FIRST_PANE

WINDOWS = 60


@pytest.mark.parametrize("seed", seeds(85, slow=range(40)))
def test_a_backlog_reaches_followers_through_changes_of_its_master(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are a thousandth of the real ones, so that small windows fill the messages between masters."""
    monkeypatch.setattr(result_log, "BYTES_MAX", 8 << 10)
    monkeypatch.setattr(job_masters, "PIECE_BYTES", 1)
    monkeypatch.setattr(job_master, "UNCONFIRMED_BYTES", 1 << 10)
    fleet = SimulatedFleet(seed)
    for _ in range(6):
        fleet.add("web", read_from="beginning")
        fleet.run(fleet.now + 0.3)
    fleet.run(fleet.now + 10.0)
    began_ms = fleet.wall_ms - 1000 * (WINDOWS + 10)
    for server in fleet.workers():
        server.log += [(began_ms + 1000 * number, "a") for number in range(WINDOWS)]
    follower = next(server for server in fleet.workers() if not server.node.is_root(key_of(JOB)))
    fleet.submit(JOB, follower, "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND")
    client_of(follower.agent).follow(key_of(JOB), FIRST_PANE, fleet.now)
    fleet.run(fleet.now + PAST_S)
    for _ in range(2):
        fleet.run(fleet.now + fleet.random.uniform(0.0, 0.5))
        for server, _ in fleet.masters(JOB)[:1]:
            fleet.stall(server, fleet.random.uniform(3.0, 12.0))
    fleet.run(fleet.now + 60.0)
    assert not [one for one in follower.notices if isinstance(one, WindowsLost)]
    panes = published(follower, key_of(JOB))
    assert panes == sorted(set(panes))
    # What agents bring that stood still comes in windows of its own, as late.
    for one in (window.result for window in fleet.of(JOB) if window.result.events):
        assert one.events == one.contributors == 6 - len(one.missing), "nobody has enrolled too late to be expected"
    assert panes[:WINDOWS] == [began_ms // 1000 * 1000 + 1000 * number for number in range(WINDOWS)]
