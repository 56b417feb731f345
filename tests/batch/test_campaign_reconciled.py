"""The spam campaign (paper §4.1) live over eight agents that are killed meanwhile, and offline over their archives."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
from watching import Watch

import elf
from agent.control.messages import Acknowledged
from agent.programs.confinement import refusal
from elf.batch.recomputation import SparkArchive
from elf.batch.reconcile_output import summary, why
from elf.batch.reconciliation import reconcile
from elf.batch.table import Table
from elf.demo import Shop
from elf.demo.agents import AgentFleet, AgentSpec, StreamFiles
from elf.demo.job_plays import ROLES
from elf.demo.job_show import prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.live,
    pytest.mark.spark,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
AGENTS = 8
VISITORS_S = 30.0
RATE = 200
ROLE = ROLES["spam_campaign"]


@dataclass(frozen=True)
class Campaign:
    """What is left of a live run: the archives, and whom it was killed."""

    archives: list[str]
    killed: list[str]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    folder = tmp_path_factory.mktemp("campaign")
    with Shop(folder, servers=AGENTS) as shop:
        specs = [
            AgentSpec(f"agent-{number}", (StreamFiles("events", (str(server.event_log),)),))
            for number, server in enumerate(shop.servers, 1)
        ]
        with AgentFleet(folder / "agents", specs, archives=True) as fleet:
            visitors = threading.Thread(target=shop.run_load, args=(VISITORS_S,), kwargs={"rate": RATE})
            submit(fleet)
            visitors.start()
            killed = kill_some(fleet)
            visitors.join()
            archives = [str(fleet.archive(name)) for name in fleet.names]
    return Campaign(archives, killed)


def submit(fleet: AgentFleet) -> None:
    """Returns when all agents run the job."""
    (one,) = prepared(fleet, [ROLE])
    with elf.connect_sync(fleet.socket("agent-1")) as client, client.submit(ROLE.app, one.app_id, one.bundle) as job:
        assert any(isinstance(said, Acknowledged) and said.agents == AGENTS for said in job.updates())


def kill_some(fleet: AgentFleet) -> list[str]:
    """One that only works, and then the master; the first one comes back."""
    with elf.connect_sync(fleet.socket("agent-1")) as client:
        master = next(job for job in client.jobs() if job.app == ROLE.app).master
    leaf, bystander, *_ = (name for name in fleet.names if name != master)
    with Watch(fleet.socket(bystander), ROLE.app) as watch:
        watch.wait_for("a whole window", lambda came: came.result.contributors == AGENTS, 20.0)
        for victim in (leaf, master):
            seen = len(watch.windows)
            fleet.kill(victim)
            watch.wait_for(f"{victim} missing", lambda came, name=victim: name in came.result.missing, 20.0, after=seen)
            if victim == leaf:
                fleet.restart(victim)
        watch.wait_for("the next master's windows", lambda came: came.result.epoch > 1, 20.0)
        watch.wait_for(
            "all but the master", lambda came: came.result.missing == [master], 30.0, after=len(watch.windows)
        )
    return [leaf, master]


def test_every_window_is_equal_or_explained(spark: SparkSession, campaign: Campaign) -> None:
    archive = SparkArchive(Table.open(spark, campaign.archives))
    job = archive.live_job(ROLE.app, None, None)
    judged = reconcile(job, archive)
    told = [(one.window[0], one.verdict, why(one)) for one in judged]
    assert {one.verdict for one in judged} == {"equal", "explained"}, told
    assert len(judged) >= 8, summary(judged)
    missing = {name for one in judged if one.live is not None for name in one.live.absent}
    assert missing == set(campaign.killed)
    assert max(one.version for one in job.results) >= 2
    assert {one.epoch for one in job.results} >= {1, 2}
    starts = sorted({one.start_ms for one in job.results if one.start_ms is not None})
    assert {later - earlier for earlier, later in pairwise(starts)} == {3000}


def test_a_result_that_was_changed_is_caught(spark: SparkSession, campaign: Campaign) -> None:
    archive = SparkArchive(Table.open(spark, campaign.archives))
    job = archive.live_job(ROLE.app, None, None)
    victim = next(one for one in job.results if one.rows and one.version == 1)
    rows = [{**victim.rows[0], "posts": victim.rows[0]["posts"] + 1}, *victim.rows[1:]]
    forged = msgspec.structs.replace(victim, rows=rows)
    (found,) = reconcile(replace(job, results=(forged,)), archive)
    assert found.verdict == "unexplained"
    assert found.difference is not None
    assert found.difference.startswith("row 1: posts is")
    (honest,) = reconcile(replace(job, results=(victim,)), archive)
    assert honest.verdict in ("equal", "explained")
