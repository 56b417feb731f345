"""Real agents measure how long their results take: phases sum up, and results say what they took."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from elf_process import elf as elf_process
from numbered_lines import NumberedFleet
from watching import DEADLINE_S, milliseconds

import elf
from agent.control.messages import JobLatency
from elf.client import QueryRefusedError, Result, SyncClient, SyncJob
from query.latency import AGENT_PHASES, Phase

pytestmark = pytest.mark.live
NAMES = [f"agent-{number}" for number in range(1, 9)]
RESULTS = 10
LIMIT_MS = 60_000
"""So long that it is met on machines that are busy with other things as well."""
COUNTED = "SELECT COUNT(*) AS n, MAX(id) AS newest FROM web WINDOWING 1 SECOND"
SQL = f"{COUNTED} GRACE 500 MILLISECONDS WITHIN {LIMIT_MS // 1000} SECONDS"
OUT_OF_REACH = r"WITHIN 2 ms is out of reach: (.* can be met|no time can be promised)"
READ_MS = 10.0
"""By so much the clocks of two processes of a machine may differ, and roundings."""


def check_line(result: Result, came_ms: float) -> bool:
    """Whether a result says what it took: no longer than until its client had it, and in the form that is told."""
    said = json.loads(result.json)
    if "latency_ms" not in said:
        return False
    assert said["within_ms"] == LIMIT_MS
    assert 0 < said["latency_ms"] <= came_ms - milliseconds(result.window_end) + READ_MS
    assert said["met"] == (said["latency_ms"] <= LIMIT_MS)
    assert ("slowest" in said) == (not said["met"])
    return True


def watched(client: SyncClient, job: SyncJob) -> tuple[int, JobLatency]:
    """The results that say what they took, until there are enough, and the way to this client is known; what the
    master tells then."""
    said, deadline = 0, time.monotonic() + DEADLINE_S
    for result in job:
        assert time.monotonic() < deadline
        said += check_line(result, 1000 * time.time())
        if said >= RESULTS and (found := client.latency(job.app)).phases[Phase.DELIVER].count:
            return said, found
    raise AssertionError("the job goes on for ever")


def check_sums(found: JobLatency) -> None:
    """Phases sum up to the latency, of the last result and on average, but for the skew that is told of."""
    assert [one.what for one in found.phases] == [phase.label for phase in Phase]
    to_publication = found.phases[:-1]
    assert {one.count for one in to_publication} == {found.results} == {found.total.count}
    sum_ms = sum(one.mean_ms for one in to_publication)
    assert abs(found.total.mean_ms - sum_ms) <= found.skew.mean_ms + 0.1
    assert abs(found.last_ms - sum(found.last.values())) <= 1.1 * found.skew.p99_ms + 0.1
    assert found.last["deliver"] == 0.0, "it is no part of the latency"


def test_results_say_what_they_took_and_their_master_where_it_went(tmp_path: Path) -> None:
    with NumberedFleet(tmp_path, NAMES) as fleet:
        socket = fleet.socket(NAMES[0])
        with elf.connect_sync(socket) as client, client.query(SQL, app="numbers") as job:
            said, found = watched(client, job)
            shown = elf_process("latency", "numbers", "--socket", str(socket))
            listed = elf_process("latency", "--output", "json", "--socket", str(socket))
            with pytest.raises(QueryRefusedError, match=OUT_OF_REACH):
                client.query(f"{COUNTED} WITHIN 2 MILLISECONDS").__enter__()
            with client.query(SQL, app="again") as again:
                assert "out of reach" not in again.warning, "the limit is met already"
        assert fleet.faults() == []
    assert found.results >= said
    assert found.met + found.missed == found.results
    check_sums(found)
    assert {one.what for one in found.parts if one.count} == {phase.label for phase in AGENT_PHASES}
    assert {one.agent for one in found.agents} <= set(NAMES)
    assert 0 < sum(one.last for one in found.agents) <= found.results
    assert (shown.code, listed.code) == (0, 0), shown.err + listed.err
    assert all(phase.label in shown.out for phase in Phase)
    assert [json.loads(line)["app"] for line in listed.out.splitlines()] == ["numbers"]
