"""`elf agent` that cannot start says why in one line; one that can is ready, answers, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from agent_process import AgentProcess, eventually
from elf_command import elf
from test_agent_fleet import Conversation

from agent.control.messages import GetJobs, GetStatus, Jobs, QueryRequest, Refused
from benchmarks.chaos.hosts import SmallDisks, disks_unavailable
from overlay import Authority

NO_DISKS = disks_unavailable()
FLEET = "shop"
AUTHORITY = Authority.create(FLEET)


@pytest.fixture
def agent(tmp_path: Path) -> AgentProcess:
    return AgentProcess(tmp_path / "a", AUTHORITY)


def replace(agent: AgentProcess, authority: Authority, **options: object) -> None:
    """Gives the agent another certificate."""
    for name in ("agent.pem", "agent.key"):
        (agent.folder / name).unlink()
    authority.issue(agent.name, **options).save(agent.folder / "agent.pem", agent.folder / "agent.key")  # type: ignore[arg-type]


def test_from_start_to_end(agent: AgentProcess) -> None:
    with agent.start().ready():
        ready = agent.event("ready")
        assert ready["listen"] == agent.address
        status = agent.status()
        assert (status.name, status.fleet, status.address, status.active) == ("agent-1", FLEET, agent.address, True)
        assert status.node_id == ready["node_id"]
        assert [stream.name for stream in status.streams] == ["web"]
        assert 0 < status.memory_bytes < 140e6
        assert agent.ask(GetJobs()) == Jobs([])
        assert agent.stop() == 0
        assert [line["event"] for line in agent.events()][-2:] == ["leaving", "ended"]
        assert not agent.control_socket.exists()


@pytest.mark.slow
def test_every_start_is_another_incarnation(agent: AgentProcess) -> None:
    with agent:
        for number in (1, 2):
            assert agent.start().event("ready")["incarnation"] == number
            assert agent.stop(signal.SIGINT) == 0


def test_after_a_kill_the_socket_left_behind_is_replaced(agent: AgentProcess) -> None:
    with agent.start().ready():
        assert agent.stop(signal.SIGKILL) == -9
        assert agent.control_socket.exists()
        assert agent.start().ready().status().active
        assert agent.stop() == 0


def test_a_signal_while_it_waits_for_its_seeds(agent: AgentProcess) -> None:
    with agent.change("seeds = []", 'seeds = ["127.0.0.1:1"]').start():
        agent.event("starting")
        assert agent.stop() == 0


def test_a_faulty_configuration_is_told_line_by_line_with_exit_code_2(agent: AgentProcess) -> None:
    with agent.change("paths", "pathz").change("seeds = []", "seeds = 5").start():
        assert agent.wait() == 2
        config = agent.folder / "agent.toml"
        assert agent.lines == [
            f"{config}:4: seeds: must be a list, not a whole number",
            f"{config}:10: streams[0].paths: is missing",
            f"{config}:12: streams[0].pathz: unknown key (did you mean paths?)",
        ]


def test_a_configuration_that_is_broken_after_its_check_starts_no_agent(agent: AgentProcess) -> None:
    config = agent.folder / "agent.toml"
    config.write_text(agent.config)
    assert elf(agent.folder, "config", "check", str(config))[0] == 0
    config.write_text(agent.config + 'log_level = "info\n')
    code, out, complaint = elf(agent.folder, "agent", "--config", str(config))
    assert (code, out, complaint.count("\n")) == (2, "", 1)
    assert complaint.startswith(f"{config}:13: illegal character")
    assert not (agent.folder / "data").exists()


def test_the_port_is_in_use(agent: AgentProcess) -> None:
    with agent, socket.socket() as other:
        other.bind(("127.0.0.1", agent.port))
        other.listen()
        assert agent.run() == (
            f"{agent.folder}/agent.toml:3: listen: cannot listen on {agent.address}: the port is in use"
        )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("a key as certificate", "agent.toml:8: identity.certificate: {folder}/agent.key: not a certificate (PEM)"),
        ("a certificate as key", "agent.toml:9: identity.key: {folder}/agent.pem: not a private key (PEM)"),
        (
            "the authority as agent",
            "agent.toml:8: identity.certificate: {folder}/ca/ca.pem: not an agent's certificate",
        ),
        ("missing", "identity.certificate: {folder}/agent.pem: No such file or directory"),
        ("garbage", "identity.certificate: {folder}/agent.pem: not a certificate (PEM)"),
        ("key of another", "identity.key: {folder}/agent.key: does not belong to the certificate"),
        ("key missing", "identity.key: {folder}/agent.key: No such file or directory"),
        ("expired", "identity.certificate: {folder}/agent.pem: expired at"),
        ("of tomorrow", "identity.certificate: {folder}/agent.pem: not valid before"),
        ("of another authority", "identity.certificate: {folder}/agent.pem: not signed by the authority"),
        ("of another fleet", "identity.certificate: {folder}/agent.pem: of fleet 'other', not 'shop'"),
        ("of another agent", "name: 'agent-1', but the certificate {folder}/agent.pem is that of 'agent-2'"),
        ("no authority", "identity.ca: {folder}/ca.pem: not the certificate of an authority"),
    ],
)
def test_certificates_that_will_not_do(agent: AgentProcess, fault: str, words: str) -> None:
    folder = agent.folder
    now = datetime.now(UTC)
    match fault:
        case "a key as certificate":
            agent.change('"agent.pem"', '"agent.key"')
        case "a certificate as key":
            agent.change('"agent.key"', '"agent.pem"')
        case "the authority as agent":
            AUTHORITY.save(folder / "ca")
            agent.change('"ca.pem"', '"ca/ca.pem"').change('"agent.pem"', '"ca/ca.pem"')
            agent.change('"agent.key"', '"ca/ca.key"')
        case "missing":
            (folder / "agent.pem").unlink()
        case "garbage":
            (folder / "agent.pem").write_text("garbage")
        case "key of another":
            (folder / "agent.key").write_bytes(AUTHORITY.issue("agent-2").key_pem)
        case "key missing":
            (folder / "agent.key").unlink()
        case "expired":
            replace(agent, AUTHORITY, not_before=now - timedelta(days=2), days=1)
        case "of tomorrow":
            replace(agent, AUTHORITY, not_before=now + timedelta(days=1))
        case "of another authority":
            replace(agent, Authority.create(FLEET))
        case "of another fleet":
            other = Authority.create("other")
            replace(agent, other)
            (folder / "ca.pem").write_bytes(other.certificate_pem)
        case "of another agent":
            agent.name = "agent-2"
            replace(agent, AUTHORITY)
        case "no authority":
            (folder / "ca.pem").write_bytes((folder / "agent.pem").read_bytes())
    with agent:
        assert words.format(folder=folder) in agent.start_here()


def test_a_data_directory_that_cannot_be_written(agent: AgentProcess) -> None:
    (agent.folder / "file").touch()
    with agent.change('"data"', '"file/data"'):
        assert agent.run() == f"data_directory {agent.folder}/file/data: cannot be used: not a directory"


@pytest.mark.slow
@pytest.mark.skipif(NO_DISKS is not None, reason=NO_DISKS or "")
def test_a_data_directory_on_a_disk_that_is_read_only(agent: AgentProcess) -> None:
    data = agent.folder / "data"
    with SmallDisks({"a": data}), agent:
        subprocess.run(["mount", "-o", "remount,ro", str(data)], check=True)
        assert agent.run() == f"data_directory {data}: cannot be used: read-only file system ({data}/lock)"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_data_directory_that_is_not_permitted(agent: AgentProcess) -> None:
    (agent.folder / "data").mkdir(mode=0o500)
    with agent:
        assert "cannot be used: permission denied" in agent.run()


def test_a_data_directory_another_agent_uses(agent: AgentProcess, tmp_path: Path) -> None:
    with agent.start().ready(), AgentProcess(tmp_path / "b", AUTHORITY, "agent-2") as other:
        other.change('"data"', '"../a/data"')
        assert other.run() == f"data_directory {other.folder}/../a/data: another agent uses it"
        assert agent.status().active


def test_a_control_socket_another_agent_answers_at(agent: AgentProcess, tmp_path: Path) -> None:
    with agent.start().ready(), AgentProcess(tmp_path / "b", AUTHORITY, "agent-2") as other:
        other.change("[identity]", f'control_socket = "{agent.control_socket}"\n[identity]')
        assert other.run() == f"control_socket {agent.control_socket}: another agent answers there"
        assert agent.status().active


def test_a_control_socket_in_a_folder_that_is_not_there(agent: AgentProcess) -> None:
    with agent.change("[identity]", 'control_socket = "run/elf.sock"\n[identity]'):
        assert agent.run() == (f"control_socket {agent.folder}/run/elf.sock: there is no folder {agent.folder}/run")


@pytest.mark.slow
def test_an_agent_lives_on_though_its_log_takes_nothing(agent: AgentProcess) -> None:
    agent.program = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 2); from elf.cli import main; main()"
    with agent.start():
        eventually(agent.control_socket.exists, "it listens")
        assert agent.status().active
        agent.tell(signal.SIGHUP)  # it says something about that
        eventually(lambda: (config := agent.status().config) and config.generation == 2, "it lives on")
        assert agent.stop() == 0


def test_a_second_signal_ends_it_at_once(agent: AgentProcess, tmp_path: Path) -> None:
    with agent.start().ready(), AgentProcess(tmp_path / "b", AUTHORITY, "agent-2", (agent.address,)) as other:
        other.start().ready()
        eventually(lambda: other.status().leaf_set and agent.status().leaf_set, "the agents know each other")
        agent.tell(signal.SIGSTOP)  # it answers no farewell
        other.tell(signal.SIGTERM)
        other.event("leaving")
        assert other.stop(signal.SIGINT) == 128 + signal.SIGINT
        assert other.events()[-2]["event"] == "ending at once"
        agent.tell(signal.SIGCONT)
        assert agent.stop() == 0


def test_a_core_that_raises_ends_the_agent_with_one_line(agent: AgentProcess) -> None:
    agent.program = """
from agent.runtime.agent import Agent
from elf.cli import main
def broken(self, now, wall_ms): raise ValueError("the core is broken")
Agent.handle_timer = broken
main()
"""
    with agent.start():
        assert agent.wait() == 1
        (line,) = [line for line in agent.events() if line["level"] == "error"]
        assert (line["event"], line["part"]) == ("agent failed", "core")
        assert line["error"] == "ValueError: the core is broken"
        assert "Traceback" in line["traceback"]
        assert not agent.control_socket.exists()


def test_a_part_that_can_be_started_anew_is(agent: AgentProcess) -> None:
    agent.program = """
from agent.daemon.seeds import Seeds
from elf.cli import main
run, failures = Seeds.run, [KeyError("seeds are broken")]
async def broken(self):
    if failures: raise failures.pop()
    await run(self)
Seeds.run = broken
main()
"""
    with agent.start().ready():
        (line,) = [line for line in agent.events() if line["level"] == "error"]
        assert (line["event"], line["part"]) == ("part failed, starting it anew", "seeds")
        assert "Traceback" in line["traceback"]
        assert agent.stop() == 0


def test_a_request_that_fails_in_the_agent_costs_only_itself(agent: AgentProcess) -> None:
    agent.program = """
from agent.runtime.agent import Agent
from elf.cli import main
def broken(self): raise RuntimeError("cannot be told")
Agent.status = broken
main()
"""
    with agent.start().ready():
        answer = agent.ask(GetStatus())
        assert isinstance(answer, Refused)
        assert answer.kind == "unavailable"
        assert agent.event("a request failed")["error"] == "RuntimeError: cannot be told"
        assert agent.ask(GetJobs()) == Jobs([])
        assert agent.stop() == 0


def test_an_end_does_not_wait_for_a_read_that_is_stuck(agent: AgentProcess) -> None:
    agent.program = """
import sys, time
from agent.feeding.reading import FeedReader
from elf.cli import main
def stuck(self, *arguments):
    print('{"event": "stuck"}', file=sys.stderr)
    time.sleep(900)
FeedReader._read = stuck
main()
"""
    with agent.start().ready(), Conversation(agent, QueryRequest("SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND")):
        agent.event("stuck")
        assert agent.stop() == 0
