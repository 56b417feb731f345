"""Real agents run a query dry before anything runs, and tell what they find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elf_process import elf as elf_process
from measured_work import OF_WORK
from numbered_lines import NumberedFleet

import elf
from elf.client import QueryRefusedError

pytestmark = pytest.mark.live
NAMES = ("agent-1", "agent-2", "agent-3")
COUNTED = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
ENTERED = "SELECT id, COUNT(*) AS n FROM web GROUP BY id WINDOWING 1 SECOND"
SQL = f"{ENTERED} WITHIN 2 SECONDS"
LINES = 3_500
RESULTS = 12
REFUSED = r"WITHIN 3 ms is out of reach: .*\(as total measures, and as [1-3] agents run it dry\)"


def test_agents_tell_what_a_query_would_cost_them_and_nothing_runs(tmp_path: Path) -> None:
    with NumberedFleet(tmp_path, NAMES, first_lines=LINES) as fleet:
        socket = fleet.socket(NAMES[0])
        with elf.connect_sync(socket) as client:
            found = client.run_dry(SQL)
            assert client.jobs() == []
        shown = elf_process("query", "--explain-latency", SQL, "--output", "json", "--socket", str(socket))
        assert fleet.faults() == []
    assert (found.agents, found.asked, found.refused, found.clipped) == (3, 3, {}, 0)
    assert {one.agent for one in found.samples} <= set(NAMES)
    assert len(found.samples) + found.unanswered == 3
    for one in found.samples:
        assert one.lines >= LINES
        assert set(one.costs) == set(OF_WORK)
    assert shown.code == 0, shown.err
    explained = json.loads(shown.out)
    assert explained["agents"] == 3
    assert explained["known_from"] == ""


def test_agents_run_a_query_dry_before_it_is_submitted(tmp_path: Path) -> None:
    """Of a first one too little is known to refuse it; beside a job that tells of the ways, what they find decides."""
    with NumberedFleet(tmp_path, NAMES, first_lines=LINES) as fleet:
        with elf.connect_sync(fleet.socket(NAMES[0])) as client:
            with client.query(SQL, app="first") as job:
                assert "assumed" in job.warning or "out of reach" in job.warning
            with client.query(COUNTED, app="total") as other:
                seen = [result for result, _ in zip(other, range(RESULTS), strict=False)]
                with pytest.raises(QueryRefusedError, match=REFUSED):
                    client.query(f"{ENTERED} WITHIN 3 MILLISECONDS").__enter__()
                with pytest.raises(QueryRefusedError, match=REFUSED):
                    client.analyse(f"{ENTERED} WITHIN 3 MILLISECONDS")  # as for a creator to sign it
                with client.query(f"{ENTERED} WITHIN 20 SECONDS", app="second") as job:
                    assert "out of reach" not in job.warning
        assert fleet.faults() == []
    assert len(seen) == RESULTS
