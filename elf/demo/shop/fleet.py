"""The whole shop: starts its servers as processes, and ends them in any case."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from types import TracebackType
from typing import IO, Self

from elf.demo.errors import DemoError
from elf.demo.interruption import uninterrupted
from elf.demo.load.load import LoadReport, Progress, run_load

SERVERS_MAX = 64
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 5.0
_ERROR_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Server:
    """One running web server of the shop."""

    name: str
    pid: int
    port: int
    access_log: Path
    event_log: Path


class _Process:
    """A server process, its ready line and its stderr."""

    def __init__(self, number: int, directory: Path, shown: Path | None, program: str) -> None:
        self.name = f"shop-{number}"
        self.directory = directory / self.name
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        arguments = ["--name", self.name, "--directory", str(self.directory), "--worker", str(number)]
        if shown is not None:
            arguments += ["--shown", str(shown)]
        self.popen = subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            stdin=subprocess.PIPE,  # its life line: however this process ends, the server ends too
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )

    def server(self, deadline: float) -> Server:
        """Waits for the ready line; raises DemoError if it does not come."""
        try:
            port = int(json.loads(self._ready_line(deadline))["port"])
        except (ValueError, KeyError, TypeError):
            raise DemoError(f"{self.name} did not start: {self._last_words()}") from None
        return Server(
            name=self.name,
            pid=self.popen.pid,
            port=port,
            access_log=self.directory / "access.log",
            event_log=self.directory / "events.json",
        )

    def check(self) -> None:
        """Raises DemoError if the server has ended."""
        if self.popen.poll() is not None:
            raise DemoError(f"{self.name} ended too early: {self._last_words()}")

    def _ready_line(self, deadline: float) -> bytes:
        assert self.popen.stdout is not None
        with DefaultSelector() as selector:
            selector.register(self.popen.stdout, EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise DemoError(f"{self.name} did not start within {_START_TIMEOUT_S:g} seconds")
        return self.popen.stdout.readline(_ERROR_BYTES_MAX)

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(1)
        self._stderr.seek(0)
        lines = self._stderr.read(_ERROR_BYTES_MAX).decode(errors="replace").splitlines()
        return lines[-1] if lines else f"exit code {self.popen.returncode}, nothing on stderr"

    def stop(self, deadline: float) -> None:
        """Waits for the end after terminate(), by force from `deadline` on."""
        try:
            self.popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout, self._stderr):
            if pipe is not None:
                pipe.close()


class Shop:
    """`with Shop(directory) as shop:` runs the servers; their logs are in `directory`/shop-N and stay there.

    `shown` gives, by a server's number, the folder in which the agent beside it shows values of jobs. `program` is the
    module of the servers. Raises DemoError when one cannot start. After the block no server is left and all logs are
    complete.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        servers: int = 8,
        shown: Callable[[int], Path] | None = None,
        program: str = "elf.demo.shop.shop",
    ) -> None:
        if not 1 <= servers <= SERVERS_MAX:
            raise DemoError(f"a shop has between 1 and {SERVERS_MAX} servers, not {servers}")
        self.directory = Path(directory)
        self.servers: tuple[Server, ...] = ()
        self._count = servers
        self._shown = shown
        self._program = program
        self._processes: list[_Process] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def run_load(
        self, seconds: float, progress: Progress | None = None, *, rate: float = 1_200, seed: int = 0
    ) -> LoadReport:
        """Runs `load.run_load` on all servers. Raises DemoError if one of them has ended."""
        ports = [server.port for server in self.servers]
        report = run_load(ports, seconds, progress, rate=rate, seed=seed)
        self.check()
        return report

    def check(self) -> None:
        """Raises DemoError if a server has ended."""
        for process in self._processes:
            process.check()

    def _start(self) -> None:
        try:
            for number in range(self._count):
                shown = self._shown(number) if self._shown is not None else None
                with uninterrupted():
                    self._processes.append(_Process(number, self.directory, shown, self._program))
        except OSError as error:
            raise DemoError(f"shop-{len(self._processes)} did not start: {error}") from error
        deadline = time.monotonic() + _START_TIMEOUT_S
        self.servers = tuple(process.server(deadline) for process in self._processes)

    def stop(self) -> None:
        """Ends the servers, and completes their logs."""
        for process in self._processes:
            process.popen.terminate()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while self._processes:
            self._processes[-1].stop(deadline)
            self._processes.pop()
