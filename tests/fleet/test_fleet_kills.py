"""SIGKILL in the middle of a stream, of agents in every role: the windows go on, honestly, and nobody is counted twice.

Twenty agents, so that not everyone knows everyone: some reach the master of a job only by way of another agent, which
then combines for them. What each log holds is known to the event.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise

import pytest
from known_logs import KnownLogs
from watching import Came, Watch, submit

import elf
from agent.control.messages import JobStatus
from elf.demo.agents import agents
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles
from overlay import app_id

pytestmark = [pytest.mark.live, pytest.mark.slow]
"""Agents in each of these roles die in `make test` too: in simulated fleets, one in the middle of a tree as deep
(`test_lives_simulated.py`), and of real processes a master and an owner (`test_moved_groups_live.py`)."""
AGENTS = 20
NAMES = [f"agent-{number}" for number in range(1, AGENTS + 1)]
QUERY = "SELECT agent, COUNT(*) AS events, SUM(n) AS total FROM web GROUP BY agent WINDOWING 1 SECOND GRACE 1 SECOND"
PLACES_S = 30.0
"""Upper bound on the time until agents have their places in a tree."""
DIGIT = 1 << 124
"""Ids with the same first digit (of 4 bits) lie in a range this long."""


@dataclass(frozen=True)
class Stage:
    """A fleet and its logs."""

    fleet: AgentFleet
    logs: KnownLogs


def deep_app() -> str:
    """A name whose id lies in the middle of those with its first digit."""
    names = (f"deep-{number}" for number in count())
    return next(name for name in names if 0.4 < app_id(name, b"") % DIGIT / DIGIT < 0.6)


def deep_ids(key: int) -> list[int]:
    """Ids that make a tree of two levels: seven close to the key, the others evenly spread over the rest.

    Those opposite the key do not have its root, the second, in their leaf sets. For its first digit they know an
    agent of whom everybody heard early: the first, by which they joined.
    """
    near = [key + step * (DIGIT >> 3) for step in (-1, 0, 1, -2, 2, -3, 3)]
    others = AGENTS - len(near)
    far = [key + DIGIT + number * 14 * DIGIT // (others - 1) for number in range(others)]
    return [identifier % (1 << 128) for identifier in near + far]


@pytest.fixture(scope="module")
def _time_to_start() -> Iterator[None]:
    """So many processes take long to start on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agents, "START_TIMEOUT_S", 600.0)
        yield


@pytest.fixture(scope="module")
def stage(_time_to_start: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("kills")
    ids = deep_ids(app_id(deep_app(), b""))
    with KnownLogs(folder / "logs", NAMES) as logs:
        specs = [
            AgentSpec(name, (StreamFiles("web", (str(logs.path(name)),)),), node_id=identifier)
            for name, identifier in zip(NAMES, ids, strict=True)
        ]
        with AgentFleet(folder / "agents", specs) as fleet:
            yield Stage(fleet, logs)


def part_of(stage: Stage, name: str, app: str) -> JobStatus:
    with elf.connect_sync(stage.fleet.socket(name)) as client:
        return next(job for job in client.status().jobs if job.app == app)


def roles(stage: Stage, app: str) -> dict[str, str]:
    """One agent of each kind: the master, one that combines for others on the way, and one that does neither. Agents
    that start on a busy machine find their places in the tree a moment later."""
    deadline = time.monotonic() + PLACES_S
    while len(found := _roles_now(stage, app)) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _roles_now(stage: Stage, app: str) -> dict[str, str]:
    parts = {name: part_of(stage, name, app) for name in NAMES}
    found: dict[str, str] = {}
    for name, part in parts.items():
        if "master" in part.roles:
            found["master"] = name
        elif part.children:
            found["interior"] = name
        else:
            found["leaf"] = name
    return found


def check_counts(windows: list[Came], logs: KnownLogs) -> None:
    """No window counts more than was written, none less of an agent that should be in it and is; each second once.

    In the first windows not everyone is expected: an agent is from the first pane on that began after it got the job.
    """
    assert windows
    for earlier, later in pairwise(windows):
        assert later.start_ms == earlier.end_ms
    for came in windows:
        result = came.result
        counted = {row["agent"]: row["events"] for row in result.rows}
        assert sum(counted.values()) == result.events
        assert [row["total"] for row in result.rows] == list(counted.values())
        for name in NAMES:
            written = logs.count(name, came.start_ms, came.end_ms)
            assert counted.get(name, 0) <= written, (name, result)
            if result.expected == AGENTS and name not in (*result.missing, *result.partial):
                assert counted.get(name, 0) == written, (name, result)


def test_windows_go_on_whoever_is_killed(stage: Stage) -> None:
    fleet, app = stage.fleet, deep_app()
    submit(fleet.socket("agent-20"), QUERY, app, AGENTS)
    victims = roles(stage, app)
    assert set(victims) == {"leaf", "interior", "master"}
    bystander = next(name for name in NAMES if name not in victims.values())
    with Watch(fleet.socket(bystander), app) as watch:
        watch.wait_for("a complete window", lambda came: came.result.contributors == AGENTS)
        for role in ("leaf", "interior", "master"):
            kill(stage, watch, victims[role])
            stage.fleet.restart(victims[role])
        mark = len(watch.windows)
        back = watch.wait_for("all agents again", lambda came: came.result.contributors == AGENTS, after=mark)
        assert (back.result.expected, back.result.missing, back.result.partial) == (AGENTS, [], [])
        windows = list(watch.windows)
    assert windows[-1].result.epoch > windows[0].result.epoch
    check_counts(windows, stage.logs)
    assert fleet.faults() == []


def kill(stage: Stage, watch: Watch, victim: str) -> None:
    """The windows go on, and say who is missing."""
    before = len(watch.windows)
    stage.fleet.kill(victim)
    without = watch.wait_for(f"a window without {victim}", lambda came: victim in came.result.missing, after=before)
    assert without.result.expected == AGENTS
