"""The spam campaign (paper §4.1) and another job, live over eight agents with archives that are killed meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from watching import Watch

import elf
from agent.control.messages import Acknowledged
from elf.demo import Shop
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.jobs.job_plays import ROLES
from elf.demo.jobs.job_show import prepared
from elf.demo.load.load import LoadReport
from elf.demo.story.truth import read_events

AGENTS = 8
VISITORS_S = 600.0
"""Upper bound on the duration of visits, which end once nothing needs them."""
RATE = 200
ROLE = ROLES["spam_campaign"]
TOTALS = "totals"
QUERY = "SELECT COUNT(*) AS n FROM events WINDOWING 1 SECOND GRACE 1 SECOND"
BEFORE_S = 6
"""Whole seconds of the past that the other job is to have windows of."""
WINDOWS = 30


@dataclass(frozen=True)
class Campaign:
    """Results of the campaign: archives, killed agents, times of all events, and the backfill's output."""

    archives: list[str]
    killed: list[str]
    events: list[int]
    began_ms: int
    backfilled: list[dict[str, Any]]


def run_campaign(folder: Path) -> Campaign:
    """While visitors come, the other job begins, and is filled in from the past on by the command."""
    with Shop(folder, servers=AGENTS) as shop:
        specs = [
            AgentSpec(f"agent-{number}", (StreamFiles("events", (str(server.event_log),)),))
            for number, server in enumerate(shop.servers, 1)
        ]
        with AgentFleet(folder / "agents", specs, archives=True) as fleet:
            archives = [fleet.archive(name) for name in fleet.names]
            eventually(lambda: all(any((one / "log").glob("*.json")) for one in archives))
            submit(fleet)
            visitors = Visitors(shop)
            began_ms = (now_ms() // 1000 + 2) * 1000
            eventually(lambda: now_ms() > began_ms + 1000 * BEFORE_S)
            with elf.connect_sync(fleet.socket("agent-1")) as client, client.query(QUERY, app=TOTALS, detach=True):
                filling = backfill(fleet, began_ms)
            killed = kill_some(fleet)
            printed, said = filling.communicate(timeout=600)
            visitors.send_away()
            assert filling.returncode == 0, said
        events = [event.at_ms for server in shop.servers for event in read_events(server.event_log)]
    return Campaign(
        list(map(str, archives)), killed, sorted(events), began_ms, list(map(json.loads, printed.splitlines()))
    )


class Visitors:
    """Visitors come to all servers from now on."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._are_gone = threading.Event()
        self._thread = threading.Thread(target=self._come, daemon=True)
        self._thread.start()

    def _come(self) -> None:
        with suppress(InterruptedError):
            self._shop.run_load(VISITORS_S, self._go_on, rate=RATE)

    def _go_on(self, _report: LoadReport) -> None:
        if self._are_gone.is_set():
            raise InterruptedError

    def send_away(self) -> None:
        self._are_gone.set()
        self._thread.join()


def submit(fleet: AgentFleet) -> None:
    """Returns when all agents run the campaign's job."""
    (one,) = prepared(fleet, [ROLE])
    with elf.connect_sync(fleet.socket("agent-1")) as client, client.submit(ROLE.app, one.app_id, one.bundle) as job:
        assert any(isinstance(said, Acknowledged) and said.agents == AGENTS for said in job.updates())


def backfill(fleet: AgentFleet, began_ms: int) -> subprocess.Popen[str]:
    """The command, asking an agent that is not killed."""
    since = datetime.fromtimestamp(began_ms / 1000, UTC).isoformat()
    archives = [word for name in fleet.names for word in ("--archive", str(fleet.archive(name)))]
    words = ["backfill", TOTALS, *archives, "--from", since, "--follow", "--windows", str(WINDOWS), "--timeout", "580"]
    command = [sys.executable, "-m", "elf", "batch", *words, "--output", "json", "--master", "local[2]"]
    return subprocess.Popen(
        [*command, "--socket", str(fleet.socket(bystander(fleet)))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def masters(fleet: AgentFleet) -> set[str]:
    with elf.connect_sync(fleet.socket("agent-1")) as client:
        return {job.master for job in client.jobs() if job.app == ROLE.app}


def bystander(fleet: AgentFleet) -> str:
    """One that stays alive."""
    return next(name for name in fleet.names if name not in masters(fleet))


def kill_some(fleet: AgentFleet) -> list[str]:
    """The master, and one that only works; that one comes back."""
    (master,) = masters(fleet)
    leaf = next(name for name in fleet.names if name not in (master, bystander(fleet)))
    victims = [leaf, master]
    with Watch(fleet.socket(bystander(fleet)), TOTALS) as watch:
        watch.wait_for("a whole window of the other job", lambda came: came.result.contributors == AGENTS)
    with Watch(fleet.socket(bystander(fleet)), ROLE.app) as watch:
        watch.wait_for("a whole window", lambda came: came.result.contributors == AGENTS)
        for victim in victims:
            fleet.kill(victim)
        watch.wait_for("both missing", lambda came: set(victims) <= set(came.result.missing))
        fleet.restart(leaf)
    return victims


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def eventually(condition: Callable[[], object]) -> None:
    """Waits for it, four minutes at most."""
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
