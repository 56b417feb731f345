"""Agents as processes: they find each other, live with what strangers send, and run what clients ask for."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_process import DEADLINE_S, AgentProcess, eventually

from agent.control.messages import (
    Accepted,
    Acknowledged,
    Answer,
    Answered,
    Ask,
    Ended,
    Follow,
    GetJobs,
    Job,
    Jobs,
    Query,
    Refused,
    Request,
    Stop,
    Stopped,
    Updated,
    UpdateJob,
    Window,
)
from overlay import Authority

pytestmark = pytest.mark.live
AUTHORITY = Authority.create("shop")
ANSWER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
PER_PRODUCT = "SELECT product, COUNT(*) AS n FROM web GROUP BY product"


class Conversation:
    """One request to an agent and its answers, for as long as the connection is open."""

    def __init__(self, agent: AgentProcess, request: Request) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(agent.control_socket))
        self._socket.sendall(msgspec.json.encode(request) + b"\n")
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_error: object) -> None:
        self._answers.close()
        self._socket.close()

    def answer(self) -> Answer:
        line = self._answers.readline()
        assert line, "the agent closed the connection"
        return ANSWER.decode(line)

    def until(self, kind: Any) -> Any:
        while not isinstance(answer := self.answer(), kind):
            assert not isinstance(answer, Refused | Ended), answer
        return answer

    def until_everyone_runs_it(self, agents: int) -> None:
        while (told := self.until(Acknowledged)) and (told.agents, told.expected) != (agents, agents):
            pass


@contextmanager
def fleet(folder: Path, size: int) -> Iterator[list[AgentProcess]]:
    """Agents that know each other; all end without a word of complaint."""
    agents = [AgentProcess(folder / "agent-1", AUTHORITY, "agent-1")]
    agents += [
        AgentProcess(folder / f"agent-{number}", AUTHORITY, f"agent-{number}", (agents[0].address,))
        for number in range(2, size + 1)
    ]
    with ExitStack() as stack:
        for agent in agents:
            stack.enter_context(agent.start())
        for agent in agents:
            agent.ready()
            eventually(lambda agent=agent: len(agent.status().leaf_set) == size - 1, "everyone knows everyone")
        yield agents
        for agent in agents:
            if agent.is_running():
                assert agent.stop() == 0
            assert [line for line in agent.events() if line["level"] in ("error", "critical")] == []


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    """Two agents for all tests that leave them as they were."""
    with fleet(tmp_path_factory.mktemp("pair"), 2) as agents:
        yield agents


def write(agent: AgentProcess, *products: str, at_s: float | None = None) -> None:
    """Appends an event of now for each product to the agent's log."""
    lines = [json.dumps({"timestamp": at_s or time.time(), "product": product}) + "\n" for product in products]
    with (agent.folder / "shop.log").open("a") as log:
        log.writelines(lines)


def test_two_agents_join_and_say_so(pair: list[AgentProcess]) -> None:
    first, second = pair
    status = second.status()
    assert (status.leaf_set, status.peers, status.active) == (["agent-1"], 1, True)
    assert first.status().leaf_set == ["agent-2"]


def test_a_seed_that_does_not_answer_is_asked_again_and_told_of(tmp_path: Path) -> None:
    seed = AgentProcess(tmp_path / "seed", AUTHORITY, "seed")
    with seed, AgentProcess(tmp_path / "a", AUTHORITY, "agent-1", (seed.address,)).start() as agent:
        told = agent.where(lambda line: "trying again" in line["event"], "it says that no seed answers")
        assert told["failures"] == [f"{seed.address}: connection refused"]
        assert not agent.status().active
        for request in (Query(PER_PRODUCT), Ask("shop")):
            answer = agent.ask(request)
            assert isinstance(answer, Refused)
            assert (answer.kind, "has not joined" in answer.message) == ("unavailable", True)
        seed.start().ready()
        agent.ready()
        assert agent.status().leaf_set == ["seed"]
        assert (agent.stop(), seed.stop()) == (0, 0)


def test_an_agent_of_another_authority_stays_outside(tmp_path: Path) -> None:
    stranger = AgentProcess(tmp_path / "b", Authority.create("shop"), "agent-2")
    with AgentProcess(tmp_path / "a", AUTHORITY).start().ready() as agent, stranger:
        stranger.change("seeds = []", f'seeds = ["{agent.address}"]').start()
        told = stranger.where(lambda line: "trying again" in line["event"], "it says why it is not let in")
        assert "certificate of another authority" in told["failures"][0]
        assert agent.status().leaf_set == []
        refused = [name for name, count in agent.status().counters.items() if count and "transport.refused" in name]
        assert refused
        assert (agent.stop(), stranger.stop()) == (0, 0)


def test_garbage_at_its_port_is_counted_and_the_agent_answers_all_the_time(tmp_path: Path) -> None:
    garbage = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + b"\xff" * 2000, b"\xff" * 65536, os.urandom(4096), b""]
    with AgentProcess(tmp_path / "a", AUTHORITY).start().ready() as agent, ExitStack() as stack:
        before = agent.status().memory_bytes
        for number in range(120):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", agent.port), DEADLINE_S))
            with suppress(OSError):  # it is refused in the middle of it
                stranger.sendall(garbage[number % len(garbage)])
            assert agent.status().active
        refused = eventually(
            lambda: sum(count for name, count in agent.status().counters.items() if "transport.refused" in name) >= 90,
            "what was no agent is counted",
        )
        assert refused
        status = agent.status()
        assert status.counters["transport.strangers"] <= 64
        assert status.memory_bytes < before + 20e6
        assert len(agent.lines) < 40
        assert agent.stop() == 0


def test_a_killed_agent_is_missed_and_comes_back(tmp_path: Path) -> None:
    with fleet(tmp_path, 3) as (first, second, third):
        assert third.stop(signal.SIGKILL) == -9
        eventually(
            lambda: first.status().leaf_set == ["agent-2"] and second.status().leaf_set == ["agent-1"],
            "it is missed",
        )
        assert first.event("peer failed")["peer"] == f"127.0.0.1:{third.port}"
        third.start().ready()
        eventually(lambda: len(first.status().leaf_set) == 2, "it is back")
        assert third.event("ready")["incarnation"] == 2


def test_an_agent_that_leaves_is_gone_at_once(tmp_path: Path) -> None:
    with fleet(tmp_path, 2) as (first, second):
        assert second.stop() == 0
        eventually(lambda: first.status().leaf_set == [], "it is gone")
        assert first.event("peer left")["peer"] == f"127.0.0.1:{second.port}"


def test_a_query_over_what_the_logs_hold(pair: list[AgentProcess]) -> None:
    for agent in pair:
        write(agent, "plum", "fig", "plum")
    query = "SELECT product, COUNT(*) AS n FROM web WHERE product <> 'apple' GROUP BY product"
    with Conversation(pair[1], Query(query, app="fruit")) as client:
        accepted = client.answer()
        assert accepted == Accepted("fruit", accepted.query, ["product", "n"], bounded=True)
        result = json.loads(bytes(client.until(Window).result))
        assert result["rows"] == [{"product": "fig", "n": 2}, {"product": "plum", "n": 4}]
        assert (result["contributors"], result["expected"]) == (2, 2)
        assert client.answer() == Ended("finished")
    (stream,) = pair[0].status().streams
    assert (stream.name, stream.events >= 3, stream.malformed) == ("web", True, 0)


@contextmanager
def busy(agents: list[AgentProcess]) -> Iterator[None]:
    """All the while events come."""
    over = threading.Event()

    def write_on() -> None:
        while not over.wait(0.1):
            for agent in agents:
                write(agent, "apple")

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def test_windows_come_live_to_all_who_follow(pair: list[AgentProcess]) -> None:
    """With the grace that jobs have by default; all other tests say theirs, lest they wait."""
    query = f"{PER_PRODUCT} WINDOWING 1 SECOND"
    with Conversation(pair[0], Query(query, app="live")) as owner:
        owner.until_everyone_runs_it(2)
        with busy(pair), Conversation(pair[1], Follow("live")) as follower:
            assert isinstance(follower.answer(), Accepted)
            seen = [follower.until(Window) for _ in range(3)]
            panes = [window.pane for window in seen]
            assert panes == sorted(set(panes))
            last = json.loads(bytes(seen[2].result))
            assert (last["contributors"], last["expected"], last["missing"]) == (2, 2, [])
            with Conversation(pair[1], Follow("live", after=seen[0].pane)) as late:
                again = [late.until(Window) for _ in range(2)]
                assert [window.pane for window in again] == panes[1:]
            for agent in pair:
                answer = agent.ask(Ask("live", 3))
                assert isinstance(answer, Answered)
                told = [window.pane for window in answer.windows]
                assert (len(told), told) == (3, sorted(set(told)))
                assert told[-1] >= panes[-1]
            assert pair[0].ask(Stop("live")) == Stopped("live")
            assert follower.until(Ended) == Ended("stopped")
        assert owner.until(Ended) == Ended("stopped")


def test_a_job_is_updated_in_flight(pair: list[AgentProcess]) -> None:
    """The column in use is read as another type: what is parsed of the logs changes with it, and no event is lost."""
    query = f"{PER_PRODUCT} WINDOWING 1 SECOND GRACE 1 SECOND"
    other = "SELECT COUNT(*) AS apples FROM web WHERE product = 'apple' WINDOWING 1 SECOND GRACE 1 SECOND"
    with Conversation(pair[0], Query(query, app="live")) as owner:
        owner.until_everyone_runs_it(2)
        with busy(pair):
            owner.until(Window)
            updated = pair[1].ask(UpdateJob("live", other))
            assert isinstance(updated, Updated)
            assert (updated.version, updated.agents, updated.expected, updated.laggards) == (2, 2, 2, [])
            seen: list[dict[str, Any]] = []
            while not seen or seen[-1]["version"] == 1 or len(seen) < 6:
                seen.append(json.loads(bytes(owner.until(Window).result)))
            for agent in pair:
                (job,) = (job for job in jobs_of(agent) if job.app == "live")
                assert (job.version, job.query) == (2, updated.query)
            refused = pair[0].ask(UpdateJob("live", "SELECT nothing"))
            assert isinstance(refused, Refused)
            assert refused.kind == "usage"
            assert pair[0].ask(UpdateJob("dead", other)) == Refused(
                "unknown", "there is no job dead in this fleet: elf jobs lists those there are"
            )
            assert pair[0].ask(Stop("live")) == Stopped("live")
    versions = [window["version"] for window in seen]
    assert versions == sorted(versions)
    assert versions[-1] == 2
    for window in seen:
        assert (window["contributors"], window["missing"], window["late"]) == (2, [], 0)
        (row,) = window["rows"]
        assert row == ({"product": "apple", "n": window["events"]}, {"apples": window["events"]})[window["version"] - 1]
        assert (window["version"] == 2) == (window["window_start"] >= updated.starts)


@pytest.mark.slow  # memory fleets and simulated ones prove it by default
def test_jobs_read_and_join_the_results_of_another(pair: list[AgentProcess]) -> None:
    summed = "SELECT product, SUM(n) AS n, COUNT(*) AS windows FROM app('live') GROUP BY product WINDOWING 2 SECONDS"
    joined = "SELECT l.n, COUNT(*) AS events FROM web JOIN app('live') AS l ON web.product = l.product GROUP BY l.n"
    assert pair[1].ask(Query(summed)) == Refused(
        "usage", "there is no job live in this fleet: elf jobs lists those there are"
    )
    with (
        Conversation(pair[0], Query(f"{PER_PRODUCT} WINDOWING 1 SECOND GRACE 1 SECOND", app="live")) as read,
        busy(pair),
    ):
        first = json.loads(bytes(read.until(Window).result))
        eventually(lambda: "live" in jobs_known_to(pair[1]), "the other agent has heard of it")
        with (
            Conversation(pair[1], Query(summed, app="sums")) as reader,
            Conversation(pair[0], Query(f"{joined} WINDOWING 1 SECOND GRACE 1 SECOND")) as joiner,
        ):
            sums = [json.loads(bytes(reader.until(Window).result)) for _ in range(2)]
            for window in (json.loads(bytes(joiner.until(Window).result)) for _ in range(3)):
                assert (window["missing"], window["partial"], window["dropped"]) == ([], [], 0)
                assert sum(row["events"] for row in window["rows"]) == window["events"], "each has its product's row"
            assert pair[1].ask(Stop("live")) == Stopped("live")
            assert reader.until(Ended) == Ended("finished")
        counts = {first["window_start"]: first["rows"][0]["n"]}
        while not isinstance(told := read.answer(), Ended):
            if isinstance(told, Window):
                window = json.loads(bytes(told.result))
                counts[window["window_start"]] = sum(row["n"] for row in window["rows"])
    for one in sums:
        inside = [n for start, n in counts.items() if one["window_start"] <= start < one["window_end"]]
        assert [(row["n"], row["windows"]) for row in one["rows"]] == [(sum(inside), 2)]
        assert (one["contributors"], one["expected"], one["partial"], one["late"]) == (1, 1, [], 0)


def jobs_of(agent: AgentProcess) -> list[Job]:
    jobs = agent.ask(GetJobs())
    assert isinstance(jobs, Jobs)
    return jobs.jobs


def jobs_known_to(agent: AgentProcess) -> list[str]:
    return [job.app for job in jobs_of(agent)]


@pytest.mark.parametrize("detach", [False, True])
def test_a_job_belongs_to_its_connection_unless_it_is_detached(pair: list[AgentProcess], detach: bool) -> None:
    app = f"mine-{detach}"
    query = Query(f"{PER_PRODUCT} WINDOWING 1 SECOND", app=app, detach=detach)
    with Conversation(pair[0], query) as client:
        client.until_everyone_runs_it(2)
        eventually(lambda: app in jobs_known_to(pair[1]), "the fleet knows the job")
    if detach:
        with Conversation(pair[1], Follow(app)) as follower:
            follower.until(Accepted)
        assert pair[1].ask(Stop(app)) == Stopped(app)
    eventually(lambda: not any(app in jobs_known_to(agent) for agent in pair), "the job is gone")
    with Conversation(pair[1], Follow(app)) as follower:
        assert follower.until(Ended | Refused) != Ended("lost")
    answer = pair[1].ask(Stop("never there"))
    assert isinstance(answer, Refused)
    assert answer.kind == "unknown"


def test_what_cannot_be_run_is_refused_with_the_place(pair: list[AgentProcess]) -> None:
    agent = pair[0]
    for text, words in (("SELECT FROM", "line 1, column"), ("SELECT nonsense(x) FROM web", "there is no function")):
        answer = agent.ask(Query(text))
        assert isinstance(answer, Refused)
        assert answer.kind == "usage"
        assert words in answer.message
    with Conversation(agent, Query(f"{PER_PRODUCT} WINDOWING 1 SECOND", app="taken")) as client:
        client.until_everyone_runs_it(2)
        answer = agent.ask(Query(PER_PRODUCT, app="taken"))
        assert isinstance(answer, Refused)
        # The job that has the name is not touched.
        assert "taken" in jobs_known_to(agent)


def test_an_agent_with_a_job_and_clients_ends_when_told_to(tmp_path: Path) -> None:
    with (
        fleet(tmp_path, 2) as agents,
        Conversation(agents[0], Query(f"{PER_PRODUCT} WINDOWING 1 SECOND", app="job", detach=True)) as client,
    ):
        client.until_everyone_runs_it(2)
        assert agents[0].stop() == 0
        eventually(lambda: jobs_known_to(agents[1]) == ["job"], "the job goes on elsewhere")


def test_a_query_of_no_stream_of_this_agent_may_be_of_another(tmp_path: Path) -> None:
    other = AgentProcess(tmp_path / "agent-2", AUTHORITY, "agent-2")
    with AgentProcess(tmp_path / "agent-1", AUTHORITY).start().ready() as agent, other:
        other.change("seeds = []", f'seeds = ["{agent.address}"]').change('"web"', '"sales"').start().ready()
        eventually(lambda: agent.status().leaf_set == ["agent-2"], "they know each other")
        write(other, "apple")
        with Conversation(agent, Query("SELECT COUNT(*) AS n FROM sales")) as client:
            assert json.loads(bytes(client.until(Window).result))["rows"] == [{"n": 1}]
        assert (other.stop(), agent.stop()) == (0, 0)
