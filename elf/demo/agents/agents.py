"""A fleet of real agents on this machine: starts `elf agent` processes, kills and restarts them, ends them all.

Every agent has a folder of its own with its configuration, certificate, key and data, and holds on to a life line
(`tether.py`): none survives the process that started it.
"""

import random
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from elf.demo.agents.agent_process import ARCHIVE, AgentProcess, PortTakenError
from elf.demo.errors import DemoError
from overlay import Authority, CreatorFiles, read_public_key

AGENTS_MAX = 64
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 6.0
_ATTEMPTS = 3
_POLL_S = 0.02
_SEEDS = 3
_PORTS = range(20_000, 32_000)
"""Below what systems lend to outgoing connections: an agent that was killed must find its port free again."""
_PORT_ATTEMPTS = 200
_SOCKET_PATH_MAX = 90
"""Paths of Unix sockets may have 104 to 108 bytes, depending on the system."""


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """A stream of one agent: where its files are (globs) and how they are read."""

    name: str
    paths: tuple[str, ...]
    read_from: str = "end"
    time_field: str | None = None


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent to start; `node_id` is drawn by the authority if it is not given."""

    name: str
    streams: tuple[StreamFiles, ...]
    node_id: int | None = None


class AgentFleet:
    """`with AgentFleet(directory, agents) as fleet:` runs the agents; all of them are ready when the block begins.

    Raises DemoError when one cannot start. `choose_port` yields a port to try; one that is taken is replaced. With
    `archives` each agent keeps an archive. After the block no agent and no control socket is left; the agents'
    folders are, below `directory`.
    """

    def __init__(
        self,
        directory: Path | str,
        agents: Sequence[AgentSpec],
        *,
        fleet: str = "demo",
        archives: bool = False,
        choose_port: Callable[[], int] | None = None,
    ) -> None:
        if not 1 <= len(agents) <= AGENTS_MAX:
            raise DemoError(f"a fleet has between 1 and {AGENTS_MAX} agents here, not {len(agents)}")
        self.directory = Path(directory)
        self.name = fleet
        self._archives = archives
        self._agents = agents
        self._choose_port = choose_port or free_port
        self._processes: dict[str, AgentProcess] = {}
        self._sockets: Path | None = None

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self._start()
        except OSError as error:
            self.stop(at_once=True)
            raise DemoError(f"the agents did not start: {error}") from error
        except BaseException:
            self.stop(at_once=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(at_once=kind is not None)

    @property
    def creator(self) -> Path:
        """The folder of somebody whose jobs in Python this fleet runs."""
        return self.directory / "creator"

    def shown(self, name: str) -> Path:
        """Where an agent puts what jobs show to the web server beside it."""
        return self.directory / name / "data" / "shown"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._processes)

    def socket(self, name: str) -> Path:
        """The control socket of an agent."""
        return self._processes[name].socket

    def archive(self, name: str) -> Path:
        """What an agent archives, if the fleet has archives."""
        return self.directory / name / ARCHIVE

    def process(self, name: str) -> AgentProcess:
        return self._processes[name]

    def launch(self, name: str) -> None:
        """Starts an agent that has ended, with the same identity and data, and does not wait for it."""
        process = self._processes[name]
        process.seeds = self._seeds_beside(name)
        process.launch()

    def is_ready(self, name: str) -> bool:
        """Whether a launched agent says that it is part of the overlay. DemoError if it has ended.

        Where somebody else has its port, it is launched again with another.
        """
        try:
            return self._processes[name].is_ready()
        except PortTakenError:
            self._move(name)
            return False

    def restart(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Launches an agent and waits until it is ready."""
        self.launch(name)
        self.wait_ready([name], timeout_s)

    def wait_ready(self, names: Sequence[str], timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns when all of them are ready. DemoError if one ends or is not in time."""
        _wait(names, self.is_ready, timeout_s)

    def kill(self, name: str) -> None:
        """SIGKILL, and gone."""
        self._processes[name].kill()

    def terminate(self, name: str, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM; the exit code. By force if it takes longer than `timeout_s`."""
        self._processes[name].terminate()
        return self._processes[name].wait(time.monotonic() + timeout_s)

    def is_running(self, name: str) -> bool:
        return self._processes[name].is_running()

    def faults(self) -> list[str]:
        """What the agents logged that should not be there: errors, and lines that are no structured log."""
        return [f"{name}: {line}" for name, process in self._processes.items() for line in process.faults()]

    def stop(self, *, at_once: bool = False) -> None:
        """Ends all agents, by force after a while; `at_once` does not wait for their farewells."""
        for process in self._processes.values():
            if at_once:
                process.kill()
            else:
                process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self._processes.values():
            process.wait(deadline)
            process.close()
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _prepare(self) -> None:
        """Certificates and folders."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._sockets = _sockets_directory(self.directory)
        authority = Authority.create(self.name)
        for agent in self._agents:
            process = AgentProcess(
                agent.name,
                self.directory / agent.name,
                fleet=self.name,
                streams=[_stream_table(stream) for stream in agent.streams],
                socket=self._sockets / f"{agent.name}.sock",
                port=self._new_port(),
                archives=self._archives,
            )
            credentials = authority.issue(agent.name, node_id=agent.node_id)
            process.keep(authority.certificate_pem, credentials)
            self._processes[agent.name] = process
        shutil.rmtree(self.creator, ignore_errors=True)
        files = CreatorFiles(self.creator)
        files.create("demo", None)
        files.certificate_file.write_bytes(authority.trust("demo", read_public_key(files.public_file)))

    def _start(self) -> None:
        """Everyone knows the first agent, which is nobody's guest; anew with other ports if one is taken."""
        for attempt in range(1, _ATTEMPTS + 1):
            first, *others = self._processes.values()
            for process in others:
                process.seeds = [first.address]
            for process in self._processes.values():
                process.launch()
            try:
                _wait(self.names, lambda name: self._processes[name].is_ready(), START_TIMEOUT_S)
            except PortTakenError as error:
                if attempt == _ATTEMPTS:
                    raise DemoError(str(error)) from error
            else:
                return
            for process in self._processes.values():
                process.kill()
                process.port = self._new_port()

    def _move(self, name: str) -> None:
        process = self._processes[name]
        if process.launches > _ATTEMPTS:
            raise DemoError(f"{name} finds no free port")
        process.port = self._new_port()
        process.launch(again=True)

    def _seeds_beside(self, name: str) -> list[str]:
        others = [process for other, process in self._processes.items() if other != name]
        return [process.address for process in others if process.is_running()][:_SEEDS]

    def _new_port(self) -> int:
        taken = {process.port for process in self._processes.values()}
        for _ in range(_PORT_ATTEMPTS):
            if (port := self._choose_port()) not in taken:
                return port
        raise DemoError("no free ports for the agents")


def _wait(names: Sequence[str], is_ready: Callable[[str], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    waiting = list(names)
    while waiting := [name for name in waiting if not is_ready(name)]:
        if time.monotonic() > deadline:
            raise DemoError(f"{', '.join(waiting)}: not ready within {timeout_s:g} seconds")
        time.sleep(_POLL_S)


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses in this moment; there is no promise for the next."""
    for _ in range(_PORT_ATTEMPTS):
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DemoError("no free port on 127.0.0.1")


def _sockets_directory(directory: Path) -> Path:
    """A new folder with a short path for control sockets."""
    if len(str(directory.resolve())) <= _SOCKET_PATH_MAX - len("/sockets-12345678/agent-12.sock"):
        return Path(tempfile.mkdtemp(prefix="sockets-", dir=directory.resolve()))
    return Path(tempfile.mkdtemp(prefix="elf-"))


def _stream_table(stream: StreamFiles) -> dict[str, str | list[str]]:
    table: dict[str, str | list[str]] = {
        "name": stream.name,
        "paths": list(stream.paths),
        "read_from": stream.read_from,
    }
    if stream.time_field is not None:
        table["time_field"] = stream.time_field
    return table
