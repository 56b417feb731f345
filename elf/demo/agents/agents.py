"""A fleet of real agents on this machine: starts `elf agent` processes, kills and restarts them, ends them all.

Every agent has its own folder with configuration, certificate, key and data. A life line (`__main__.py`) ends each
agent with the process that started it.
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
from typing import Any, Self

from elf.demo.agents.agent_process import ARCHIVE, MODULE, AgentProcess, PortTakenError, Settings
from elf.demo.errors import DemoError
from elf.demo.interruption import uninterrupted
from overlay import Authority, CreatorFiles, read_public_key

AGENTS_MAX = 64
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 6.0
_ATTEMPTS = 3
_POLL_S = 0.02
_SEEDS = 3
_PORTS = range(20_000, 32_000)
"""Ports below those that systems use for outgoing connections: a killed agent must find its port free again."""
_PORT_ATTEMPTS = 200
_SOCKET_PATH_MAX = 90
"""Upper bound on the length of a socket's path; systems allow 104 to 108 bytes."""


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """A stream of one agent: its files (globs), and how they are read."""

    name: str
    paths: tuple[str, ...]
    read_from: str = "end"
    time_field: str | None = None
    clock: str = "wall"


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent to start; the authority draws the `node_id` if it is not given. `settings`: further keys of
    agent.toml. `module`: the one that runs it."""

    name: str
    streams: tuple[StreamFiles, ...]
    node_id: int | None = None
    settings: Settings = ()
    module: str = MODULE


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
        """Folder of the creator whose jobs in Python this fleet runs."""
        return self.directory / "creator"

    def shown(self, name: str) -> Path:
        """Folder in which an agent shows values of jobs to the web server beside it."""
        return self.directory / name / "data" / "shown"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._processes)

    def socket(self, name: str) -> Path:
        """The control socket of an agent."""
        return self._processes[name].socket

    def archive(self, name: str) -> Path:
        """Folder of an agent's archive, if the fleet has archives."""
        return self.directory / name / ARCHIVE

    def process(self, name: str) -> AgentProcess:
        return self._processes[name]

    def launch(self, name: str) -> None:
        """Starts an agent that has ended, with the same identity and data; does not wait for it."""
        process = self._processes[name]
        process.seeds = self._seeds_beside(name)
        process.launch()

    def is_ready(self, name: str) -> bool:
        """Whether a launched agent has joined the overlay. Raises DemoError if it has ended.

        Where its port is taken, it is launched again with another.
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
        """Waits until all of them are ready. Raises DemoError if one ends or is late."""
        _wait(names, self.is_ready, timeout_s)

    def kill(self, name: str) -> None:
        """Kills an agent (SIGKILL)."""
        self._processes[name].kill()

    def terminate(self, name: str, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ends an agent (SIGTERM), by force after `timeout_s`; returns its exit code."""
        self._processes[name].terminate()
        return self._processes[name].wait(time.monotonic() + timeout_s)

    def is_running(self, name: str) -> bool:
        return self._processes[name].is_running()

    def faults(self) -> list[str]:
        """Lines in the agents' logs that report errors or are not structured."""
        return [f"{name}: {line}" for name, process in self._processes.items() for line in process.faults()]

    def stop(self, *, at_once: bool = False) -> None:
        """Ends all agents, by force after a while; `at_once` kills them without waiting for them to leave."""
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
        """Makes certificates and folders."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with uninterrupted():
            self._sockets = _sockets_directory(self.directory)
        authority = Authority.create(self.name)
        for agent in self._agents:
            process = self._new_process(
                agent.name,
                fleet=self.name,
                streams=[_stream_table(stream) for stream in agent.streams],
                socket=self._sockets / f"{agent.name}.sock",
                port=self._new_port(),
                archives=self._archives,
                settings=agent.settings,
                module=agent.module,
            )
            credentials = authority.issue(agent.name, node_id=agent.node_id)
            process.keep(authority.certificate_pem, credentials)
            self._processes[agent.name] = process
        shutil.rmtree(self.creator, ignore_errors=True)
        files = CreatorFiles(self.creator)
        files.create("demo", None)
        files.certificate_file.write_bytes(authority.trust("demo", read_public_key(files.public_file)))

    def _new_process(self, name: str, **options: Any) -> AgentProcess:
        return AgentProcess(name, self.directory / name, **options)

    def _start(self) -> None:
        """Starts all agents, with the first one as seed of the others; anew with other ports if one is taken."""
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
    """A port of 127.0.0.1 that is free now; another process may take it at any time."""
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
    """Makes a folder with a short path for control sockets."""
    if len(str(directory.resolve())) <= _SOCKET_PATH_MAX - len("/sockets-12345678/agent-12.sock"):
        return Path(tempfile.mkdtemp(prefix="sockets-", dir=directory.resolve()))
    return Path(tempfile.mkdtemp(prefix="elf-"))


def _stream_table(stream: StreamFiles) -> dict[str, str | list[str]]:
    table: dict[str, str | list[str]] = {
        "name": stream.name,
        "paths": list(stream.paths),
        "read_from": stream.read_from,
        "clock": stream.clock,
    }
    if stream.time_field is not None:
        table["time_field"] = stream.time_field
    return table
