"""Every role and every request at a real agent, over its socket and over TLS."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import trio
from agent_process import eventually
from elf_process import elf as elf_command
from live_clients import Asker, ClientConnection, RemoteCreator, SocketUser, answer_to
from rights_world import ACCESS, QUERY, UIDS, World

import elf
from agent.control import messages as control
from agent.runtime.messages.emissions import SentEvents
from elf.client.errors import AgentUnreachableError, ClientError, ConnectionLostError
from elf.client.remote_agent import RemoteAgent
from elf.client.sync_client import SyncClient
from overlay import Authority

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="elf-rights-", dir="/tmp") as folder:
        world = World(Path(folder))
        with world.agent:
            world.agent.start().ready()
            yield world


@pytest.fixture(params=["socket", "tls"])
def askers(world: World, request: pytest.FixtureRequest) -> dict[str, Asker]:
    if request.param == "socket" and os.getuid():
        pytest.skip("only root can ask as other users")
    return world.askers(request.param)


def is_forbidden(answer: control.Answer) -> bool:
    return isinstance(answer, control.Refused) and answer.kind == "forbidden"


def started(asker: Asker, app: str) -> ClientConnection:
    """A query of this client that runs, for as long as the connection is there."""
    connection = asker.connect()
    answer = connection.ask(control.QueryRequest(QUERY, app))
    assert isinstance(answer, control.Accepted), answer
    return connection


REQUESTS: dict[str, tuple[str, control.Request]] = {
    "query": ("asker operator", control.QueryRequest(QUERY)),
    "analyse": ("asker operator", control.AnalyseRequest(QUERY)),
    "run dry": ("asker operator", control.RunDry(QUERY)),
    "submit": ("asker operator", control.SubmitRequest("new", "0" * 32, b"junk")),
    "update_bundle": ("asker operator", control.UpdateBundle("root-job", "0" * 32, b"junk")),
    "signed stop": ("asker operator", control.StopRequest("root-job", "0" * 32, b"junk")),
    "describe": ("reader asker operator", control.DescribeRequest("web")),
    "survey": ("reader asker operator", control.SurveyRequest("web")),
    "jobs": ("reader asker operator", control.GetJobs()),
    "fleet": ("reader asker operator", control.GetFleet()),
    "tree": ("reader operator", control.GetTree("root-job")),
    "elements": ("reader operator", control.GetElements("root-job")),
    "element state": ("reader operator", control.GetElements("root-job", ["said"])),
    "all elements": ("reader asker operator", control.GetElements()),
    "place": ("reader operator", control.PlaceGroups("root-job")),
    "latency": ("reader operator", control.GetLatency("root-job")),
    "move": ("operator", control.PlaceGroups("root-job", [3], "agent-2")),
    "emit": ("operator", control.EmitRequest("root-job", "0" * 32, SentEvents("Word", 0, b""))),
    "tap": ("asker operator", control.TapRequest("web")),
    "status": ("reader asker operator", control.GetStatus()),
    "rights": ("nobody reader asker operator", control.GetRights()),
    "follow": ("reader operator", control.FollowRequest("root-job")),
    "ask": ("reader operator", control.AskRequest("root-job")),
    "log": ("reader operator", control.GetLog("root-job")),
    "query over a job": (
        "operator",
        control.QueryRequest("SELECT SUM(n) AS n FROM app('root-job') WINDOWING 1 SECOND"),
    ),
    "update": ("operator", control.UpdateJob("root-job", QUERY.replace("AS n", "AS m"))),
    "stop": ("operator", control.StopRequest("root-job")),
    "reload": ("operator", control.ReloadRequest()),
}
"""For each request about the agent, or about a job of somebody else, the roles that may make it."""


def test_every_request_is_in_the_matrix() -> None:
    asked = {type(request) for _, request in REQUESTS.values()}
    assert asked | {control.DrainRequest} == set(get_args(control.Request)), "draining has a test of its own"


@pytest.fixture
def root_job(world: World) -> Iterator[None]:
    """A running job of root's, the agent's own user."""
    with world.client() as client, client.query(QUERY, app="root-job"):
        eventually(lambda: [job for job in client.jobs() if job.app == "root-job"], "the job is announced")
        yield
    eventually(lambda: all(job.app != "root-job" for job in world.client().jobs()), "the job has ended")


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.usefixtures("root_job")
def test_role_and_request_about_others(askers: dict[str, Asker], name: str) -> None:
    allowed, request = REQUESTS[name]
    for role, asker in askers.items():
        answer = answer_to(asker, request)
        assert is_forbidden(answer) == (role not in allowed.split()), (role, answer)
        if isinstance(answer, control.Refused) and answer.kind == "forbidden":
            assert "needs the right" in answer.message
            assert "[[access]] in agent.toml of agent agent-1 grants it" in answer.message


def test_everybody_who_may_query_has_every_right_over_what_is_theirs(world: World, askers: dict[str, Asker]) -> None:
    for role in ("asker", "operator"):
        asker, app = askers[role], f"{role}-job"
        connection = started(asker, app)
        for request in (
            control.FollowRequest(app),
            control.AskRequest(app),
            control.GetLog(app),
            control.PlaceGroups(app),
            control.UpdateJob(app, QUERY.replace("AS n", "AS m")),
            control.QueryRequest(f"SELECT SUM(n) AS n FROM app('{app}') WINDOWING 1 SECOND"),
        ):
            answer = answer_to(asker, request)
            assert not isinstance(answer, control.Refused), (role, request, answer)
        (entry,) = (job for job in world.client().jobs() if job.app == app)
        owner = f"{role}/" if isinstance(asker, RemoteCreator) else f"{UIDS[role]}@agent-1"
        assert entry.owner.startswith(owner)
        assert is_forbidden(answer_to(askers["nobody"], control.StopRequest(app)))
        assert isinstance(answer_to(asker, control.StopRequest(app)), control.JobStopped)
        connection.close()


def refused(askers: Asker, request: control.Request) -> str:
    """The text of a refusal for want of a right."""
    answer = answer_to(askers, request)
    assert isinstance(answer, control.Refused), answer
    assert answer.kind == "forbidden"
    return answer.message


def test_certificates_that_do_not_count(world: World) -> None:
    address = f"127.0.0.1:{world.port}"
    stranger = world.creator("stranger", Authority.create("shop"))
    with pytest.raises(ConnectionLostError, match="it may not take your certificate"):
        SyncClient(RemoteAgent(address, stranger), 60.0).status()
    agents = world.folder / "agents-own"
    agents.mkdir()
    world.authority.issue("web-2").save(agents / "creator.pem", agents / "creator.key")
    (agents / "ca.pem").write_bytes(world.authority.certificate_pem)
    assert "web-2: its role is agent" in refused(RemoteCreator(address, agents), control.GetStatus())
    misled = world.creator("misled")
    (misled / "ca.pem").write_bytes(Authority.create("shop").certificate_pem)
    with pytest.raises(AgentUnreachableError, match=r"is this the ca\.pem of it\?"):
        answer_to(RemoteCreator(address, misled), control.GetStatus())
    with pytest.raises(ClientError, match=r"the connection failed|closed the connection"):
        SyncClient(RemoteAgent(world.agent.address, world.creator("operator")), 60.0).status()


def test_the_commands_and_clients_of_python_ask_elsewhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{world.port}"
    monkeypatch.setenv("ELF_CREATOR", str(world.creator("operator")))
    found = elf_command("status", "--agent", address, "--output", "json")
    assert (found.code, json.loads(found.out)["name"]) == (0, "agent-1")
    monkeypatch.setenv("ELF_AGENT", address)
    assert elf_command("jobs").code == 0
    both = elf_command("jobs", "--agent", address, "--socket", "x")
    assert (both.code, "--socket and --agent name two agents" in both.err) == (2, True)
    (world.agent.folder / "access.log").write_text('{"path": "/"}\n')
    with pytest.raises(elf.UsageError, match="socket and agent name two agents"):
        elf.connect_sync("x", agent=address)
    once = "SELECT COUNT(*) AS n FROM web"
    with elf.connect_sync(agent=address) as client, client.query(once, once=True) as job:
        assert [result.rows for result in job] == [[{"n": 1}]]

    async def ask() -> list[object]:
        folder = world.creator("operator")
        async with elf.connect(agent=address, creator=folder) as client, client.query(once, once=True) as job:
            return [result.rows async for result in job]

    assert trio.run(ask) == [[{"n": 1}]]
    known = elf_command("rights")
    assert (known.code, known.err) == (0, "you are operator; your queries belong to operator\n")
    assert known.out.split()[-3:] == ["operate", "*", "*"]
    monkeypatch.setenv("ELF_CREATOR", str(world.creator("nobody")))
    assert elf_command("rights").err.endswith("you may do nothing here\n")
    denied = elf_command("query", once)
    assert (denied.code, denied.out) == (1, "")
    assert denied.err.startswith("elf: nobody may not run queries: it needs the right query; [[access]] in agent.toml")


@pytest.mark.slow
def test_only_operators_end_the_agent() -> None:
    with tempfile.TemporaryDirectory(prefix="elf-rights-", dir="/tmp") as folder:
        world = World(Path(folder))
        with world.agent:
            world.agent.start().ready()
            ways = [world.askers("tls"), *([] if os.getuid() else [world.askers("socket")])]
            connections = []
            for askers in ways:
                for role in ("nobody", "reader", "asker"):
                    assert is_forbidden(answer_to(askers[role], control.DrainRequest(10.0)))
                connections.append(askers["operator"].connect())
            for connection in connections:
                assert isinstance(connection.ask(control.DrainRequest(10.0)), control.Draining)
            for connection in connections:
                while isinstance(answer := connection.next_answer(), control.Draining):
                    pass
                assert answer == control.Drained(True)
                connection.close()
            assert world.agent.wait() == 0


@pytest.mark.slow
def test_where_no_rule_is_written_clients_see_and_stop_what_is_their_own() -> None:
    with tempfile.TemporaryDirectory(prefix="elf-rights-", dir="/tmp") as folder:
        world = World(Path(folder))
        world.agent.change(ACCESS, "")
        with world.agent:
            world.agent.start().ready()
            ways: list[Asker] = [RemoteCreator(f"127.0.0.1:{world.port}", world.creator("maria"))]
            if not os.getuid():
                ways.append(SocketUser(world.socket, 4009, os.getgid()))
            with world.client() as client, client.query(QUERY, app="root-job"):
                eventually(lambda: [job for job in client.jobs() if job.app == "root-job"], "the job is announced")
                for asker in ways:
                    connection = started(asker, "own")
                    for request in (control.FollowRequest("root-job"), control.StopRequest("root-job")):
                        assert "it is root@agent-1's" in refused(asker, request) or os.getuid()
                    assert "over all streams and apps" in refused(asker, control.DrainRequest(1.0))
                    assert isinstance(answer_to(asker, control.AskRequest("own")), control.AskAnswer)
                    assert isinstance(answer_to(asker, control.StopRequest("own")), control.JobStopped)
                    connection.close()
                    eventually(lambda: all(job.app != "own" for job in client.jobs()), "the job has ended")
