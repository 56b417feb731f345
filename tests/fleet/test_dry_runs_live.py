"""Real agents run a query dry before anything runs, and tell what they find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elf_process import elf as elf_process
from measured_work import OF_WORK
from numbered_lines import NumberedFleet

import elf

pytestmark = pytest.mark.live
NAMES = ("agent-1", "agent-2", "agent-3")
SQL = "SELECT id, COUNT(*) AS n FROM web GROUP BY id WINDOWING 1 SECOND WITHIN 2 SECONDS"
LINES = 5_000


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
