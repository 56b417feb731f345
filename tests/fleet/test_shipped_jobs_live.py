"""The five jobs that come with ELF, at once, over eight agents beside real web servers with visitors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from agent.programs.confinement import refusal
from elf.demo import Shop
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.catalogue import CAMPAIGN, SPAMMERS
from elf.demo.jobs.job_board import JobBoard
from elf.demo.jobs.job_checks import check, query_of
from elf.demo.jobs.job_live import JobPerformance
from elf.demo.jobs.job_plays import ROLES
from elf.demo.jobs.job_show import prepared

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
AGENTS = 8
SECONDS = 30.0
VISITS_MAX = 4
"""Each of `SECONDS`; a further one only where jobs share the machine with so much that one was too short."""
ZOOMS = {("account", "place"), ("place", "account"), ("place", CAMPAIGN), (CAMPAIGN, "account")}
"""From which query the spam campaign's job goes on to which."""


class Printed:
    """A screen that pytest shows where the test fails."""

    def happened(self, at_s: float, text: str) -> None:
        print(f"{at_s:5.1f}  {text}")

    def draw(self) -> None:
        """There is nothing to redraw."""


@pytest.mark.slow  # memory fleets prove each job, test_job_processes.py that jobs run beside real agents
def test_five_jobs_at_once_find_what_the_servers_logs_hold(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    with Shop(tmp_path, servers=AGENTS, shown=lambda number: folder / f"agent-{number + 1}/data/shown") as shop:
        specs = [
            AgentSpec(f"agent-{number}", (StreamFiles("events", (str(server.event_log),)),))
            for number, server in enumerate(shop.servers, 1)
        ]
        with AgentFleet(folder, specs) as fleet:
            roles = list(ROLES.values())
            board = JobBoard(roles, SECONDS)
            screen: Any = Printed()
            performance = JobPerformance(shop, fleet, board, screen, prepared(fleet, roles), visits_max=VISITS_MAX)
            servers = trio.run(performance.run)
            assert fleet.faults() == []
    seen = performance.seen
    for role in roles:
        windows = seen[role.app].windows
        assert {(one.contributors, one.expected) for one in windows} == {(AGENTS, AGENTS)}, role.app
        found = check(role.app, seen, servers)
        assert (found.wrong, found.checked > 0) == ((), True), found.words
    # The same in the plainest words, lest the checks agree with anything.
    lines = [json.loads(line) for server in shop.servers for line in server.event_log.read_text().splitlines()]
    clicks: Counter[str] = Counter()
    for line in lines:
        clicks.update({line["product"]: line["clicks_count"] * (line["store"] == "video_games")})
    counted = Counter(row["product"] for one in seen["micro-promotion"].windows for row in one.rows)
    assert set(counted) == {product for product, count in clicks.items() if count}
    assert sum(row["clicks"] for one in seen["micro-promotion"].windows for row in one.rows) == clicks.total() > 0
    queries = {one.version: query_of(one.rows[0]) for one in seen["spam-campaign"].windows if one.rows}
    assert set(queries.values()) == {"account", "place", CAMPAIGN}
    assert {(query, queries[version + 1]) for version, query in queries.items() if version + 1 in queries} <= ZOOMS
    assert {name for one in seen["spam-campaign"].shown for name in one["spam"]} <= {user.name for user in SPAMMERS}
    assert seen["product-bundling"].shown[-1]["bundles"]
    assert max(len(one.rows) for one in seen["kmeans"].windows) == 4
