"""Jobs of one agent that together want more of its processor than there is (WITHIN ... ELSE PARTIAL)."""

from __future__ import annotations

import pytest
from virtual_agent import PER_S, VirtualAgent

from agent import WindowResult

TIMED = "WINDOWING 1 SECOND GRACE 250 MILLISECONDS WITHIN 2 SECONDS"
JOBS = {
    "few": f"SELECT COUNT(*) AS n FROM web {TIMED} ELSE PARTIAL",
    "some": f"SELECT product, COUNT(*) AS n FROM web GROUP BY product {TIMED} ELSE PARTIAL",
    "many": f"SELECT page, COUNT(*) AS n FROM web GROUP BY page {TIMED} ELSE PARTIAL",
}
PATIENT = f"SELECT shop, COUNT(*) AS n FROM web GROUP BY shop {TIMED} ELSE LATE"
COSTS_S = {"": 1e-4, "product": 3e-4, "page": 1.4e-3, "shop": 2e-4}
"""1.8 processors for the three jobs: two of them want less than their share."""


def lived(patch: pytest.MonkeyPatch, jobs: dict[str, str]) -> tuple[VirtualAgent, dict[str, list[WindowResult]]]:
    """An overload of ten seconds, and five of calm."""
    agent = VirtualAgent(patch, COSTS_S)
    agent.submit_all(jobs)
    agent.go_on(1.0, per_s=300)
    agent.go_on(10.0)
    agent.go_on(5.0, per_s=300)
    return agent, agent.by_job()


def test_jobs_within_their_share_lose_nothing_and_all_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, windows = lived(monkeypatch, JOBS)
    for one in (*windows["few"], *windows["some"]):
        assert (one.late, one.partial, one.contributors) == (0, [], 1), "they want less than their share"
    many = windows["many"]
    assert agent.agents[0].ingest.statistics()["abandoned"] == sum(one.late for one in many) > 0
    overloaded = [one for one in many if one.late or one.partial]
    assert all(one.partial == ["agent-0"] for one in overloaded), "what lacks events says so"
    done_s = sum(COSTS_S["page"] * one.events for one in overloaded[:-1])
    assert done_s >= 0.85 * (1 - PER_S * (COSTS_S[""] + COSTS_S["product"])) * len(overloaded[:-1]), "all that is left"
    assert [(one.late, one.partial) for one in many[-3:]] == [(0, [])] * 3
    written = [one.events for one in windows["few"]]
    assert sum(one.events + one.late for one in many) == sum(written), "each event is in its window, or late"


def test_a_job_that_waits_loses_nothing_beside_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    _, windows = lived(monkeypatch, {"many": JOBS["many"], "patient": PATIENT})
    assert sum(one.late for one in windows["many"]) > 0
    assert [(one.late, one.partial) for one in windows["patient"]] == [(0, [])] * len(windows["patient"])
    lengths = [one.events for one in windows["patient"]]
    assert sum(lengths[1:12]) >= 10 * PER_S
