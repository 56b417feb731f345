"""`elf agent` as it is run in earnest: a process with a configuration, a log, a socket, signals and an exit code."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from unittest import mock

import msgspec
from agent_toml import agent_toml
from elf_process import elf

from agent.control.messages import Answer, GetStatus, Request, Status
from overlay import Authority

DEADLINE_S = 120.0
POLL_S = 0.02
PORTS = (23_000, 32_000)
_GIVEN: set[int] = set()
_ANSWER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def eventually(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first truth of a condition; fails when there is none in time."""
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what}"
        time.sleep(POLL_S)
    return found


def free_port() -> int:
    """A port nobody uses at this moment, outside of those the system gives to others, and given to nobody before: who
    has got it may bind it much later."""
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        if port in _GIVEN:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _GIVEN.add(port)
            return port


class AgentProcess:
    """One agent in a folder of its own. Lines of its log are in `lines`.

    `config` may be changed before `start`, and so may `program`, which runs it, and `tree`: another source tree, whose
    code it is.
    """

    def __init__(
        self,
        folder: Path,
        authority: Authority,
        name: str = "agent-1",
        seeds: tuple[str, ...] = (),
        node_id: int | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.name = name
        self.port = free_port()
        self.lines: list[str] = []
        self.program = "from elf.cli import main; main()"
        self.tree: Path | None = None
        self.config = agent_toml(
            name, fleet=authority.fleet, listen=self.address, seeds=seeds, streams={"web": "*.log"}
        )
        (folder / "ca.pem").write_bytes(authority.certificate_pem)
        authority.issue(name, node_id=node_id).save(folder / "agent.pem", folder / "agent.key")
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def control_socket(self) -> Path:
        return self.folder / "data" / "control.sock"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._join()

    def change(self, old: str, new: str) -> Self:
        """Edits the configuration."""
        assert old in self.config
        self.config = self.config.replace(old, new)
        return self

    def start(self) -> Self:
        (self.folder / "agent.toml").write_text(self.config)
        self.lines = []
        # On a life line: it ends with this process, whatever happens to that.
        program = f"from elf.demo.agents.__main__ import hold_on; hold_on(); {self.program}"
        command = [sys.executable, "-c", program, "agent", "--config", str(self.folder / "agent.toml")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.tree,
            env=os.environ if self.tree is None else {**os.environ, "PYTHONPATH": str(self.tree)},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process, self.lines))
        self._reader.start()
        return self

    def start_here(self) -> str:
        """The complaint of one that finds out before it runs that it cannot, in this process. Exit code 2."""
        (self.folder / "agent.toml").write_text(self.config)
        with mock.patch.dict(os.environ):  # which says how many threads an agent may have
            finished = elf("agent", "--config", str(self.folder / "agent.toml"))
        assert finished.code == 2, finished.err
        (line,) = finished.err.splitlines()
        assert line.startswith("elf: ")
        return line.removeprefix("elf: ")

    def run(self) -> str:
        """Starts an agent that cannot run: its one complaint. Exit code 1."""
        code = self.start().wait()
        assert code == 1, self.lines
        (line,) = self.lines
        assert line.startswith("elf: ")
        return line.removeprefix("elf: ")

    def ready(self) -> Self:
        self.event("ready")
        return self

    def event(self, name: str, deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """The first line of its log with this event, once there is one."""
        return self.where(lambda line: line["event"] == name, f"{self.name}: {name}", deadline_s)

    def where(
        self, condition: Callable[[dict[str, Any]], bool], what: str, deadline_s: float = DEADLINE_S
    ) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            found = next((line for line in self.events() if condition(line)), None)
            assert found or self.is_running(), f"ended before: {what}"
            return found

        try:
            line: dict[str, Any] = eventually(find, what, deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it has said: {self.lines[-20:]}") from None
        return line

    def events(self) -> list[dict[str, Any]]:
        """All of its log: every line is JSON."""
        return [json.loads(line) for line in list(self.lines)]

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def tell(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tells it to end; its exit code."""
        self.tell(number)
        return self.wait()

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        assert self._process is not None
        code = self._process.wait(deadline_s)
        self._join()
        return code

    def ask(self, request: Request) -> Answer:
        """The first answer to a request."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(DEADLINE_S)
            client.connect(str(self.control_socket))
            client.sendall(msgspec.json.encode(request) + b"\n")
            with client.makefile("rb") as answers:
                return _ANSWER.decode(answers.readline())

    def status(self) -> Status:
        answer = self.ask(GetStatus())
        assert isinstance(answer, Status)
        return answer

    def cpu_s(self) -> float:
        """User and system time so far, in ticks of 10 ms."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def _read(self, process: subprocess.Popen[bytes], lines: list[str]) -> None:
        assert process.stderr is not None
        lines.extend(line.decode().rstrip("\n") for line in process.stderr)  # one by one, as they come

    def _join(self) -> None:
        assert self._process is not None
        assert self._reader is not None
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                pipe.close()
