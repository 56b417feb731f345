"""Real agents measure how long their results take: phases sum up, and results say what they took."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from elf_process import elf as elf_process
from link_relay import LinkRelay
from numbered_lines import NumberedFleet
from watching import DEADLINE_S, milliseconds

import elf
from agent.control.messages import JobLatency
from agent.control.observation.latency_entries import PlanEntry
from elf.client import QueryRefusedError, Result, SyncClient, SyncJob
from elf.demo.agents.agent_process import AgentProcess
from query.latency import AGENT_PHASES, Phase

pytestmark = pytest.mark.live
STOPPED_S = 0.4
"""Time for which the busy agent has no processor, at the end of the grace of each window."""
DELAY_S = 0.2
"""Time that the relay adds to each way of a link."""
NAMED_RESULTS = 10
"""Windows of a second within which what was not planned is named."""
NAMES = [f"agent-{number}" for number in range(1, 9)]
RESULTS = 10
LIMIT_MS = 60_000
"""So long that it is met on machines that are busy with other things as well."""
COUNTED = "SELECT COUNT(*) AS n, MAX(id) AS newest FROM web WINDOWING 1 SECOND"
SQL = f"{COUNTED} GRACE 500 MILLISECONDS WITHIN {LIMIT_MS // 1000} SECONDS"
SOON, GRACE_MS = f"{COUNTED} WITHIN 2 SECONDS", 500
"""A query whose GRACE is chosen, and that GRACE."""
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


@contextmanager
def busy(agent: AgentProcess) -> Iterator[None]:
    """Takes the processor from an agent for a while as each window is to be closed, as other programs may."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(1.0 - (time.time() - GRACE_MS / 1000 + 0.05) % 1.0):
            agent.signal(signal.SIGSTOP)
            over.wait(STOPPED_S)
            agent.signal(signal.SIGCONT)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        agent.signal(signal.SIGCONT)


def until(job: SyncJob, client: SyncClient, is_so: Callable[[PlanEntry], bool]) -> PlanEntry:
    """The plan of a job once it is so, as results go on."""
    deadline = time.monotonic() + DEADLINE_S
    for _ in job:
        found = client.latency(job.app).plan
        assert found is not None
        if is_so(found):
            return found
        assert time.monotonic() < deadline, found
    raise AssertionError("the job goes on for ever")


@pytest.mark.slow
def test_a_busy_agent_is_named_in_the_plan(tmp_path: Path) -> None:
    names = NAMES[:3]
    with (
        NumberedFleet(tmp_path, names) as fleet,
        elf.connect_sync(fleet.socket(names[0])) as client,
        client.query(SOON, app="numbers") as job,
    ):
        calm = until(job, client, lambda plan: plan.mean_ms > 0)
        assert calm.grace_ms == GRACE_MS
        master = client.latency("numbers").master
        slow = next(name for name in names[1:] if name != master)
        with busy(fleet.process(slow)):
            named = until(job, client, lambda plan: f" of {slow} takes " in plan.remark)
            settled = until(job, client, lambda plan: f" of {slow} takes " in plan.remark and ";" in plan.remark)
        shown = elf_process("latency", "numbers", "--socket", str(fleet.socket(names[0])))
    assert named.drift_ms > 30
    assert "more than planned; " in settled.remark
    assert f"of {slow} takes" in " ".join(shown.out.split())


@pytest.mark.slow
def test_a_link_that_takes_longer_is_named_within_ten_windows_and_what_follows_is_said(tmp_path: Path) -> None:
    names = NAMES[:2]
    with ExitStack() as stage:
        relays = [LinkRelay(lambda name=name: fleet.process(name).port) for name in names]  # type: ignore[misc]
        first, second = (stage.enter_context(relay).address for relay in relays)
        settings = {names[0]: [("advertise", first)], names[1]: [("advertise", second), ("seeds", [first])]}
        fleet = NumberedFleet(tmp_path, names, settings)
        stage.enter_context(fleet)
        client = stage.enter_context(elf.connect_sync(fleet.socket(names[0])))
        job = stage.enter_context(client.query(SOON, app="numbers"))
        until(job, client, lambda plan: plan.mean_ms > 0)
        master = client.latency("numbers").master
        other = next(name for name in names if name != master)
        for relay in relays:  # either of the two may have opened the link between them
            relay.delay_s = DELAY_S
        seen: list[PlanEntry] = []

        def is_named(plan: PlanEntry) -> bool:
            """A part has one way, and a commit, which neighbours hold, two."""
            seen.append(plan)
            return plan.remark.startswith((f"uplink of {other} takes ", f"commit of {master} takes "))

        until(job, client, is_named)
        named = len(seen)
        settled = until(job, client, lambda plan: is_named(plan) and "more than planned; " in plan.remark)
    assert named <= NAMED_RESULTS, [one.remark for one in seen]
    assert settled.drift_ms < 1000 * DELAY_S, "what is known by now is planned for"
