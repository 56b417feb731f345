"""Real agents whose results take longer than planned, for what no plan was told of: it is named, and what follows is
said."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from agent_process import eventually
from elf_process import elf as elf_process
from link_relay import LinkRelay
from numbered_lines import NumberedFleet
from watching import DEADLINE_S

import elf
from agent.control.observation.latency_entries import PlanEntry
from elf.client import SyncClient, SyncJob
from elf.demo.agents.agent_process import AgentProcess
from query.latency import AGENT_PHASES, Phase

pytestmark = [pytest.mark.live, pytest.mark.slow]
NAMES = (ASKED, *OTHERS) = ("agent-1", "agent-2", "agent-3")
"""Agents, the first of which clients ask."""
NAMED_RESULTS = 10
"""Windows of a second within which what was not planned is named."""
DELAY_S = 0.2
"""Time that the relay adds to each way of a link."""
LOOPS = 5
"""Number of processes that want all of an agent's core."""
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
LOOP = """
import os, sys
core, parent = map(int, sys.argv[1:])
os.sched_setaffinity(0, {core})
while os.getppid() == parent:
    sum(range(100_000))
"""
COUNTED = "SELECT COUNT(*) AS n, MAX(id) AS newest FROM web WINDOWING 1 SECOND"
PER_USER = "SELECT user, COUNT(*) AS n FROM web GROUP BY user ORDER BY n DESC LIMIT 10 WINDOWING 1 SECOND"
SOON, GRACE_MS = "WITHIN 1 SECOND", 250
"""A limit that is met as long as nothing happens, and the GRACE that is chosen for it."""
MEMORY = "1 MiB"
"""Memory of a job on an agent: the least that can be configured."""
USERS, USERS_MAX, USER_BYTES = 2_500, 20_000, 48
"""Users a second whom nobody has seen before, at first and at most, and random bytes of a name."""
TICK_S = 0.05
OF_AGENT = (*AGENT_PHASES, Phase.UPLINK)
"""Phases that are of the agent whose part came last."""
MET = "the limit is met all the same"


def until(job: SyncJob, client: SyncClient, is_so: Callable[[PlanEntry, int], bool]) -> PlanEntry:
    """The plan of a job once it is so, of it and the limit (ms), as results go on."""
    deadline = time.monotonic() + DEADLINE_S
    for result in job:
        found = client.latency(job.app)
        assert found.plan is not None
        if is_so(found.plan, found.within_ms):
            return found.plan
        assert time.monotonic() < deadline, (found.plan, result.json[-200:])
    raise AssertionError("the job goes on for ever")


def is_met(plan: PlanEntry, limit_ms: int) -> bool:
    """Whether a plan is in force, and the median of the last results within the limit."""
    return plan.mean_ms > 0 and 0 < plan.now_ms <= limit_ms


def check_named(job: SyncJob, client: SyncClient, *drifts: str) -> PlanEntry:
    """One of some drifts is named within ten windows, and then what has come of it: no limit is said to be met that is
    not. Returns the plan by then."""
    seen: list[str] = []

    def is_named(plan: PlanEntry, _limit_ms: int) -> bool:
        seen.append(plan.remark)
        return plan.remark.startswith(tuple(f"{drift} takes " for drift in drifts))

    def is_settled(plan: PlanEntry, limit_ms: int) -> bool:
        is_true = MET not in plan.remark or is_met(plan, limit_ms)
        return is_named(plan, limit_ms) and "more than planned; " in plan.remark and is_true

    until(job, client, is_named)
    print(f"named after {len(seen)} results: {seen[-1]}")
    assert len(seen) <= NAMED_RESULTS, seen
    settled = until(job, client, is_settled)
    print(f"settled after {len(seen)}: {settled.remark}")
    return settled


def check_slowest(client: SyncClient, app: str, slow: str) -> None:
    """An agent comes to be the first of the slowest ones."""

    def is_first() -> bool:
        return [one.agent for one in client.latency(app).agents][:1] == [slow]

    eventually(is_first, f"{slow} is the slowest agent", DEADLINE_S)


def keep_to(agent: AgentProcess, cores: Iterable[int]) -> None:
    """Lets all threads of an agent, and those that they begin, run on some cores alone."""
    for thread in Path(f"/proc/{agent.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


@contextmanager
def burning(fleet: NumberedFleet, beside: str) -> Iterator[None]:
    """Has loops run on a core that is left to them and one agent."""
    own, *others = CORES
    for name in fleet.names:
        keep_to(fleet.process(name), [own] if name == beside else others)
    command = [sys.executable, "-c", LOOP, str(own), str(os.getpid())]
    loops = [subprocess.Popen(command) for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.skipif(len(CORES) < 2, reason="no core can be left to one agent")
def test_a_burner_beside_an_agent_is_named_within_ten_windows_and_what_follows_is_said(tmp_path: Path) -> None:
    with (
        NumberedFleet(tmp_path, NAMES) as fleet,
        elf.connect_sync(fleet.socket(ASKED)) as client,
        client.query(f"{COUNTED} {SOON}", app="numbers") as job,
    ):
        until(job, client, lambda plan, _limit_ms: plan.grace_ms == GRACE_MS)
        until(job, client, is_met)
        master = client.latency(job.app).master
        slow = next(name for name in OTHERS if name != master)
        with burning(fleet, slow):
            check_named(job, client, *(f"{phase.label} of {slow}" for phase in OF_AGENT))
            check_slowest(client, "numbers", slow)

            def shown() -> str:
                return " ".join(elf_process("latency", "numbers", "--socket", str(fleet.socket(ASKED))).out.split())

            eventually(lambda: f" of {slow} takes " in shown(), "people see it", DEADLINE_S)


class Crowd:
    """Users whom nobody has seen before, in the log of a server, who become more."""

    def __init__(self, log: Path) -> None:
        self._log, self._users = log, 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def grow(self) -> bool:
        """Lets twice as many come; whether those are all that may."""
        self._users = min(2 * self._users or USERS, USERS_MAX)
        return self._users == USERS_MAX

    def _write(self) -> None:
        while not self._is_over.wait(TICK_S):
            now, number = time.time(), round(self._users * TICK_S)
            names = (os.urandom(USER_BYTES).hex() for _ in range(number))
            with self._log.open("a") as file:
                file.write("".join(f'{{"time": {now}, "user": "{name}"}}\n' for name in names))

    @contextmanager
    def coming(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()


def test_a_job_that_spills_is_named_within_ten_windows_and_what_follows_is_said(tmp_path: Path) -> None:
    settings = dict.fromkeys(NAMES, (("job_memory", MEMORY),))
    with (
        NumberedFleet(tmp_path, NAMES, settings) as fleet,
        elf.connect_sync(fleet.socket(ASKED)) as client,
        client.query(f"{PER_USER} {SOON}", app="users", max_groups=1_000_000) as job,
    ):
        until(job, client, is_met)
        master = client.latency(job.app).master
        slow = next(name for name in OTHERS if name != master)
        crowd = Crowd(fleet.logs[slow])

        def is_spilling(_plan: PlanEntry, _limit_ms: int) -> bool:
            return crowd.grow() and SyncClient(str(fleet.socket(slow)), DEADLINE_S).status().counters["spill.files"] > 0

        with crowd.coming():
            until(job, client, is_spilling)
            check_named(job, client, *(f"{phase.label} of {slow}" for phase in OF_AGENT))
            check_slowest(client, "users", slow)


def test_a_link_that_takes_longer_is_named_within_ten_windows_and_what_follows_is_said(tmp_path: Path) -> None:
    names = NAMES[:2]
    with ExitStack() as stage:
        relays = [LinkRelay(lambda name=name: fleet.process(name).port) for name in names]  # type: ignore[misc]
        first, second = (stage.enter_context(relay).address for relay in relays)
        settings = {names[0]: [("advertise", first)], names[1]: [("advertise", second), ("seeds", [first])]}
        fleet = NumberedFleet(tmp_path, names, settings)
        stage.enter_context(fleet)
        client = stage.enter_context(elf.connect_sync(fleet.socket(names[0])))
        job = stage.enter_context(client.query(f"{COUNTED} WITHIN 2 SECONDS", app="numbers"))
        until(job, client, is_met)
        master = client.latency(job.app).master
        other = next(name for name in names if name != master)
        for relay in relays:  # either of the two may have opened the link between them
            relay.delay_s = DELAY_S
        # A part has one way, and a commit, which neighbours hold, two.
        settled = check_named(job, client, f"uplink of {other}", f"commit of {master}")
    assert settled.drift_ms < 1000 * DELAY_S, "what is known by now is planned for"
