"""The harness itself: agents start, move, end and are never left over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from watching import submit

import elf
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles, free_port

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look for processes in"),
]
DEADLINE_S = 120.0
COUNT = "SELECT COUNT(*) FROM web WINDOWING 1 SECOND"


def specs(folder: Path, count: int) -> list[AgentSpec]:
    log = folder / "web.json"
    log.write_text('{"time": "2026-01-01T00:00:00Z", "n": 1}\n')
    return [AgentSpec(f"agent-{number}", (StreamFiles("web", (str(log),)),)) for number in range(1, count + 1)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentFleet]:
    """Two agents; the first port they would have had is somebody else's."""
    folder = tmp_path_factory.mktemp("a-folder-with-a-name-too-long-for-the-path-of-a-unix-socket-to-be-below-it")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1]])
        with AgentFleet(folder, specs(folder, 2), choose_port=lambda: next(ports, 0) or free_port()) as fleet:
            assert taken.getsockname()[1] not in [fleet.process(name).port for name in fleet.names]
            yield fleet


def test_a_port_that_is_taken_is_replaced_and_all_agents_are_one_fleet(pair: AgentFleet) -> None:
    assert submit(pair.socket("agent-2"), COUNT, "pair", agents=2).agents == 2
    assert pair.faults() == []


def test_an_agent_whose_port_was_taken_while_it_was_dead_comes_back_at_another(pair: AgentFleet) -> None:
    port = pair.process("agent-2").port
    pair.kill("agent-2")
    assert not pair.is_running("agent-2")
    with socket.create_server(("127.0.0.1", port)):
        pair.restart("agent-2")
        assert pair.process("agent-2").port != port
        submit(pair.socket("agent-1"), COUNT, "moved", agents=2)


def test_the_first_agent_finds_the_others_again(pair: AgentFleet) -> None:
    pair.kill("agent-1")
    pair.restart("agent-1")
    submit(pair.socket("agent-1"), COUNT, "found", agents=2)


def test_who_cannot_read_its_logs_is_there_in_part(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.log"
    good.write_text('{"time": "2026-01-01T00:00:00Z", "n": 1}\n')
    bad.write_text("no line of any log\n")
    streams = [StreamFiles("web", (str(log),)) for log in (good, bad)]
    with AgentFleet(tmp_path, [AgentSpec(f"agent-{n}", (stream,)) for n, stream in enumerate(streams, 1)]) as fleet:
        submit(fleet.socket("agent-1"), COUNT, "all", agents=2)
        client = elf.connect_sync(fleet.socket("agent-1"))
        with client, client.query("SELECT COUNT(*) AS n FROM web", once=True) as job:
            (result,) = job
        assert (result.rows, result.contributors, result.expected) == ([{"n": 1}], 2, 2)
        assert (result.missing, result.partial) == ([], ["agent-2"])
        (log,) = [line for line in fleet.process("agent-2").log.read_text().splitlines() if "bad.log" in line]
        assert "no known log format" in log or "format" in log


def test_sigterm_ends_an_agent_with_exit_code_zero(pair: AgentFleet) -> None:
    assert pair.terminate("agent-2") == 0
    assert not pair.socket("agent-2").exists()
    pair.restart("agent-2")


def test_nothing_is_left_when_the_block_ends(tmp_path: Path) -> None:
    fleet = AgentFleet(tmp_path / "agents", specs(tmp_path, 2))

    def interrupted() -> None:
        with fleet:
            assert all(is_running(fleet.process(name).pid) for name in fleet.names)
            assert all(fleet.socket(name).is_socket() for name in fleet.names)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(is_running(fleet.process(name).pid) for name in fleet.names)
    assert not any(fleet.socket(name).exists() for name in fleet.names)
    assert fleet.faults() == []


def test_agents_end_by_themselves_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "web.json").touch()
    script = (
        "import sys; from pathlib import Path; from elf.demo.agents.agents import *\n"
        f"streams = (StreamFiles('web', ({str(tmp_path / 'web.json')!r},)),)\n"
        f"with AgentFleet(Path({str(tmp_path)!r}), [AgentSpec('a', streams), AgentSpec('b', streams)]) as fleet:\n"
        "    print(*(f'{fleet.process(n).pid}:{fleet.process(n).port}' for n in fleet.names), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        agents = [tuple(map(int, word.split(b":"))) for word in parent.stdout.readline().split()]
        assert len(agents) == 2
        os.kill(agents[1][0], signal.SIGSTOP)
        parent.kill()
    wait_until(lambda: not is_running(agents[0][0]), "the agent's end")
    with suppress(ProcessLookupError):
        os.kill(agents[1][0], signal.SIGCONT)
    wait_until(lambda: not is_running(agents[1][0]), "the end of the agent that was stopped")
    assert all(refuses(port) for _, port in agents)
    assert list(tmp_path.glob("sockets-*/*.sock")) == []


def test_an_agent_that_cannot_start_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "agent-2").mkdir()
    (tmp_path / "agent-2" / "data").write_text("in the way")
    with pytest.raises(DemoError, match=r"^agent-2 did not start: .*data"):
        AgentFleet(tmp_path, specs(tmp_path, 2)).__enter__()


@pytest.mark.parametrize("count", [0, 65])
def test_a_fleet_out_of_bounds_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(DemoError, match="between 1 and 64 agents"):
        AgentFleet(tmp_path, specs(tmp_path, count))
