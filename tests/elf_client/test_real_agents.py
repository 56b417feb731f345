"""The commands and the Python clients against real agents: three processes with a throw-away authority."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from asking_process import PATIENCE_S, Asking, ask, asking

import elf
from elf.client import AsyncClient, JobEndedError, JobEntry
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = pytest.mark.live
AGENTS = 3
PAST = [{"time": f"2026-01-01T00:00:{n:02d}Z", "product": f"p{n % 4}", "clicks": n} for n in range(60)]
TOTALS = "SELECT product, SUM(clicks) AS clicks, COUNT(*) AS n FROM past GROUP BY product"
LIVE = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND GRACE 1 SECOND"
WINDOW_PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentFleet]:
    """Agents with a stream `past`, which nobody writes any more, and a stream `web`, which `written` feeds."""
    folder = tmp_path_factory.mktemp("fleet")
    specs = []
    for number in range(AGENTS):
        past, web = (folder / f"{name}-{number}.json" for name in ("past", "web"))
        past.write_text("".join(json.dumps(event) + "\n" for event in PAST[number::AGENTS]))
        web.touch()
        streams = (StreamFiles("past", (str(past),), "beginning"), StreamFiles("web", (str(web),)))
        specs.append(AgentSpec(f"agent-{number + 1}", streams))
    with AgentFleet(folder / "agents", specs) as agents, written(sorted(folder.glob("web-*.json"))):
        yield agents
        assert agents.faults() == []


@contextmanager
def written(logs: list[Path]) -> Iterator[None]:
    """Somebody writes events into the logs, at the times at which they happen."""
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.wait(0.05):
            event = json.dumps({"time": time.time(), "product": f"p{number % 4}"}) + "\n"
            with logs[number % len(logs)].open("a") as log:
                log.write(event)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


@pytest.fixture
def socket(fleet: AgentFleet) -> Path:
    return fleet.socket("agent-2")


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.1)


def running(fleet: AgentFleet, app: str) -> list[JobEntry]:
    """The job of that name on each agent that knows it."""
    found = []
    for name in fleet.names:
        with elf.connect_sync(fleet.socket(name)) as client:
            found += [job for job in client.jobs() if job.app == app]
    return found


def next_window(process: Asking) -> dict[str, object]:
    """The next window that a process prints as JSON."""
    window: dict[str, object] = json.loads(process.out.next(WINDOW_PATIENCE_S))
    return window


@pytest.mark.parametrize("trees", ["", " TREES 3"])
def test_a_query_over_what_the_logs_hold_is_that_of_elf_local(socket: Path, tmp_path: Path, trees: str) -> None:
    log = tmp_path / "past.json"
    log.write_text("".join(json.dumps(event) + "\n" for event in PAST))
    here = json.loads(ask("local", "--output", "json", TOTALS.replace("past", "logs"), str(log)).out)
    finished = ask("query", "--output", "json", f"{TOTALS}{trees}", socket=socket)
    assert finished.code == 0, finished.err
    there = json.loads(finished.out)
    assert there["rows"] == here["rows"]
    assert (there["contributors"], there["expected"], there["events"]) == (AGENTS, AGENTS, len(PAST))
    assert finished.err.endswith(f": {AGENTS} of {AGENTS} agents run it\n")
    windows = [json.loads(line) for line in ask(
        "query", "--once", "--output", "json", f"{TOTALS} WINDOWING 20 SECONDS{trees}", socket=socket
    ).out.splitlines()]  # fmt: skip
    assert [window["events"] for window in windows] == [20, 20, 20]


def test_groups_beyond_the_limit_are_told_of_or_end_the_job(socket: Path) -> None:
    limited = ("query", "--output", "json", "--max-groups", "3", TOTALS)
    window = json.loads(ask(*limited, socket=socket).out)
    other = window["other"]
    assert (len(window["rows"]), other["kept"], other["relative_error"]) == (3, 3, None)
    assert sum(row["n"] for row in window["rows"]) + other["values"]["n"] == len(PAST)
    failed = ask(*limited, "--beyond-groups", "error", socket=socket)
    assert (failed.code, failed.out) == (1, "")
    assert "failed: the result has more groups than the 3 it may have" in failed.err
    with (
        elf.connect_sync(socket) as client,
        client.query(LIVE, max_groups=1, beyond_groups="error") as job,
        pytest.raises(JobEndedError, match=r"failed: the window from .* has more groups than the 1 it may have"),
    ):
        list(job)


def test_whoever_is_asked_answers(fleet: AgentFleet) -> None:
    """One of them is the job's master, since its name decides that."""
    for name in fleet.names:
        finished = ask("query", "--app", "everywhere", "--output", "json", TOTALS, socket=fleet.socket(name))
        assert finished.code == 0, finished.err
        assert json.loads(finished.out)["contributors"] == AGENTS


def test_ctrl_c_stops_a_live_job_on_every_agent(fleet: AgentFleet, socket: Path) -> None:
    with asking("query", "--app", "watched", "--output", "json", LIVE, socket=socket) as process:
        first, second = next_window(process), next_window(process)
        assert first["window_end"] == second["window_start"]
        assert (second["contributors"], second["missing"]) == (AGENTS, [])
        assert {job.agents for job in running(fleet, "watched")} == {AGENTS}
        process.signal(signal.SIGINT)
        assert process.code() == 130
        assert process.err.rest().endswith("watched: interrupted\nwatched: stopped\n")
    until(lambda: running(fleet, "watched") == [], "watched is stopped everywhere")


def test_a_client_that_is_killed_leaves_no_job(fleet: AgentFleet, socket: Path) -> None:
    with asking("query", "--app", "killed", LIVE, socket=socket) as process:
        assert process.err.next() == f"killed: {AGENTS} of {AGENTS} agents run it"
        process.signal(signal.SIGKILL)
    until(lambda: running(fleet, "killed") == [], "killed is stopped everywhere")


def test_so_many_windows_and_no_job_is_left(fleet: AgentFleet, socket: Path) -> None:
    finished = ask("query", "--app", "counted", "--windows", "2", "--output", "csv", LIVE, socket=socket)
    assert finished.code == 0, finished.err
    lines = finished.out.splitlines()
    assert lines[0] == "window_start,window_end,product,n"
    assert len({line.split(",")[0] for line in lines[1:]}) == 2
    until(lambda: running(fleet, "counted") == [], "counted is stopped everywhere")


def test_a_job_left_running_is_listed_followed_and_stopped(fleet: AgentFleet, socket: Path) -> None:
    assert ask("query", "--detach", "--app", "stays", LIVE, socket=socket).out == "stays\n"
    until(lambda: [job.agents for job in running(fleet, "stays")] == [AGENTS] * AGENTS, "everyone runs it")
    other = fleet.socket("agent-3")
    (listed,) = [json.loads(line) for line in ask("jobs", "--output", "json", socket=other).out.splitlines()]
    assert (listed["app"], listed["stream"], listed["expected"], listed["bounded"]) == ("stays", "web", AGENTS, False)
    assert "stays" in ask("jobs", socket=other).out
    taken = ask("query", "--app", "stays", LIVE, socket=other)
    assert taken.code in (1, 2)
    assert "stays" in taken.err
    with asking("follow", "stays", "--output", "json", socket=other) as process:
        assert next_window(process)["app"] == "stays"
        assert ask("stop", "stays", socket=socket).out == "stays: stopped\n"
        assert process.code() == 1
        assert "stays was stopped" in process.err.rest()
    until(lambda: running(fleet, "stays") == [], "stays is stopped everywhere")
    for command in ("stop", "follow"):
        unknown = ask(command, "never-was", socket=socket)
        assert (unknown.code, unknown.out) == (1, "")
        assert "no job never-was" in unknown.err


def test_status_knows_the_others_and_the_part_in_each_job(socket: Path) -> None:
    with asking("query", "--app", "seen", "--output", "json", LIVE, socket=socket) as process:
        next_window(process)
        status = json.loads(ask("status", "--output", "json", socket=socket).out)
        shown = ask("status", socket=socket).out
    assert status["active"]
    assert sorted(status["leaf_set"]) == ["agent-1", "agent-3"]
    assert [(stream["name"], stream["files"]) for stream in status["streams"]] == [("past", 0), ("web", 1)]
    assert status["streams"][1]["events"] > 0
    assert [job["app"] for job in status["jobs"]] == ["seen"]
    assert "worker" in status["jobs"][0]["roles"]
    assert "agent-2 of fleet" in shown


def test_an_agent_refuses_what_it_cannot_run(socket: Path) -> None:
    for query, words in {
        "SELECT product, COUNT(*) FROM web": "neither grouped nor aggregated",
        "SELECT (": "line 1",
    }.items():
        finished = ask("query", query, socket=socket)
        assert (finished.code, finished.out) == (2, "")
        assert words in finished.err
        assert "^" in finished.err


def test_what_ends_with_its_input_has_no_limit_of_latency(socket: Path) -> None:
    finished = ask("query", "--once", f"{TOTALS} WINDOWING 20 SECONDS WITHIN 1 SECOND", socket=socket)
    assert (finished.code, finished.out) == (2, "")
    assert "WITHIN is for live jobs" in finished.err
    assert "leave out WITHIN, or --once" in finished.err


def test_a_follower_survives_the_restart_of_its_agent(fleet: AgentFleet, socket: Path) -> None:
    assert ask("query", "--detach", "--app", "lasting", LIVE, socket=fleet.socket("agent-1")).code == 0
    with asking("follow", "lasting", "--output", "json", socket=socket) as process:
        before = [next_window(process)["window_start"] for _ in range(2)]
        fleet.kill("agent-2")
        fleet.restart("agent-2")
        after = [next_window(process)["window_start"] for _ in range(4)]
        process.signal(signal.SIGTERM)
        assert process.code() == 130
        said = process.err.rest()
    starts = before + after
    assert starts == sorted(set(starts)), "in order, and none twice"
    assert "lasting: connected again" in said
    assert ask("stop", "lasting", socket=socket).code == 0


def test_a_job_outlives_the_agent_that_was_asked_for_it(fleet: AgentFleet, socket: Path) -> None:
    with asking("query", "--app", "orphan", "--output", "json", LIVE, socket=socket) as process:
        last = next_window(process)["window_start"]
        fleet.kill("agent-2")
        assert process.code() == 1
        assert "elf follow orphan goes on" in process.err.rest()
    with asking("follow", "orphan", "--output", "json", socket=fleet.socket("agent-1")) as process:
        window = next_window(process)
        assert str(window["window_start"]) > str(last)
    fleet.restart("agent-2")
    assert ask("stop", "orphan", socket=fleet.socket("agent-3")).code == 0


def test_python_clients(fleet: AgentFleet, socket: Path) -> None:
    async def main() -> None:
        with trio.fail_after(WINDOW_PATIENCE_S):
            async with elf.connect(socket) as client:
                async with client.query(TOTALS) as job:
                    (result,) = [result async for result in job]
                    assert result.events == len(PAST)
                await _take_two_windows(client)

    async def _take_two_windows(client: AsyncClient) -> None:
        async with client.query(LIVE, app="from-python") as job:
            seen = []
            async for result in job:
                seen.append(result)
                if len(seen) == 2:
                    break
            assert seen[0].pane < seen[1].pane == job.last_pane
            assert job.acknowledged is not None
            assert (job.acknowledged.agents, job.acknowledged.expected) == (AGENTS, AGENTS)

    trio.run(main)
    until(lambda: running(fleet, "from-python") == [], "leaving the job stops it")


def test_key_groups_are_shown_and_move_or_it_is_said_why_not(fleet: AgentFleet, socket: Path) -> None:
    def place(*words: str) -> tuple[int, str]:
        finished = ask("place", *words, socket=socket)
        assert bool(finished.out) != bool(finished.err)
        return finished.code, finished.err.removeprefix("elf: ").removesuffix("\n")

    def view() -> list[dict[str, Any]]:
        return [json.loads(line) for line in ask("place", "placed", "--output", "json", socket=socket).out.splitlines()]

    assert place("nobody-s")[0] == 1
    assert "nobody-s" in place("nobody-s")[1]
    assert ask("query", "--detach", "--app", "placed", f"{LIVE} TREES 2", socket=socket).code == 0
    until(lambda: len([one for one in view() if one["type"] == "owner"]) == 2, "both trees have an owner")
    assert place("placed")[0] == 0
    code, why = place("placed", "--move", "3", "--to", "agent-9")
    assert (code, why.partition(":")[0]) == (2, "placed")
    assert "no agent agent-9 takes part in the job" in why
    code, why = place("placed", "--move", "60", "--to", "agent-1", "--mode", "smooth")
    assert (code, "instantly" in why) == (2, True), "windows of one pane have no state that could move"
    owned = {group["group"]: group["trees"] for group in view() if group["type"] == "group"}
    owners = {one["tree"]: one["agent"] for one in view() if one["type"] == "owner"}
    group = next(group for group, trees in owned.items() if trees == [1])
    to = next(name for name in fleet.names if name not in owners.values())
    assert place("placed", "--move", str(group), "--to", to) == (0, "")
    (moved,) = (one for one in view() if one["type"] == "group" and one["group"] == group)
    assert moved["agents"] == [to]
    assert ask("stop", "placed", socket=socket).code == 0
    code, why = place("placed", "--move", "3", "--to", "agent-1")
    is_heard_of = code == 1 and "placed" in why  # the asked agent knows of its end, and the master need not say so
    assert is_heard_of or (code, why) == (2, "placed: the job is over")
