"""One `elf agent` process: its folder, configuration and log, its start and end."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elf.demo.errors import DemoError
from elf.demo.interruption import uninterrupted
from overlay import Credentials

_LOG_BYTES_MAX = 16 << 20
"""Upper bound on the part of an agent's log that is read; agents themselves log a line per reason and minute."""
ARCHIVE = "archive"
"""Name of the archive in an agent's folder."""
MODULE = "elf.demo.agents"
"""The module that runs agents: the `elf` command on a life line."""
_PORT_TAKEN = "in use"
_FAULT_LEVELS = ("error", "critical")
_FAULT = {"level": "error"}


Settings = tuple[tuple[str, str | int | bool], ...]
"""Further keys of agent.toml, with their values."""


class PortTakenError(DemoError):
    """Another process listens on the agent's port."""


class AgentProcess:
    """An agent's folder, and its process while one runs.

    `launches` counts the starts since the last request for one: more than one if a port was taken.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        fleet: str,
        streams: Sequence[Mapping[str, str | list[str]]],
        socket: Path,
        port: int,
        archives: bool = False,
        settings: Settings = (),
        module: str = MODULE,
    ) -> None:
        self.name = name
        self.folder = folder
        self.socket = socket
        self.port = port
        self.seeds: list[str] = []
        self.node_id = 0
        self.launches = 0
        self._fleet = fleet
        self._streams = streams
        self._archives = archives
        self._settings, self._module = settings, module
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_offset = 0
        self._ready = False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id, also of a process that has ended."""
        assert self._popen is not None
        return self._popen.pid

    @property
    def log(self) -> Path:
        """Standard error of all its processes."""
        return self.folder / "agent.log"

    def keep(self, authority_pem: bytes, credentials: Credentials) -> None:
        """Writes certificates and key to the paths in its configuration."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "ca.crt").write_bytes(authority_pem)
        (self.folder / "agent.crt").write_bytes(credentials.certificate_pem)
        key = self.folder / "agent.key"
        key.touch(mode=0o600)
        key.write_bytes(credentials.key_pem)
        self.node_id = credentials.node_id

    def launch(self, *, again: bool = False) -> None:
        """Starts the process; `again` if the last attempt found its port taken."""
        assert not self.is_running(), f"{self.name} runs already"
        self.close()
        self.launches = self.launches + 1 if again else 1
        self._ready = False
        config = self.folder / "agent.toml"
        config.write_text(self._config(), encoding="utf-8")
        with self.log.open("ab") as log:
            self._log_offset = log.tell()
            with uninterrupted():
                self._popen = subprocess.Popen(
                    [sys.executable, "-m", self._module, "agent", "--config", str(config)],
                    stdin=subprocess.PIPE,  # its life line
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    process_group=0,  # Ctrl-C is for the starter of the fleet, which stops the agents
                )

    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def is_ready(self) -> bool:
        """Whether it has logged that it is ready. Raises DemoError if it has ended, PortTakenError if its port was
        taken.
        """
        if self._ready:
            return True
        ended = not self.is_running()
        self._ready = any(line.get("event") == "ready" for line in self.events())
        if ended and not self._ready:
            reason = self.last_words()
            kind = PortTakenError if _PORT_TAKEN in reason else DemoError
            raise kind(f"{self.name} did not start: {reason}")
        return self._ready

    def events(self) -> list[dict[str, Any]]:
        """Structured lines of its log since its last start."""
        return [event for line in self._lines(self._log_offset) if (event := _structured(line)) is not None]

    def faults(self) -> list[str]:
        """Lines of its whole log that report errors or are not structured, such as tracebacks.

        A taken port is no fault: the agent then gets another.
        """
        return [line for line in self._lines(0) if _is_fault(line) and _PORT_TAKEN not in line]

    def last_words(self) -> str:
        """The reason of its end, as far as it is known: the last fault in its log, or else the last line."""
        assert self._popen is not None
        lines = self._lines(self._log_offset)
        code = self._popen.poll()
        if code is not None and code < 0:
            return f"killed by signal {-code}"
        faults = [line for line in lines if _is_fault(line)]
        return (faults or lines or [f"exit code {code}, nothing on stderr"])[-1]

    def kill(self) -> None:
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()

    def signal(self, number: int) -> None:
        """Sends a signal to the process, if it runs."""
        if self._popen is not None:
            self._popen.send_signal(number)

    def terminate(self) -> None:
        if self._popen is not None:
            self._popen.terminate()

    def wait(self, deadline: float) -> int:
        """Exit code of a process that was told to end, killed from `deadline` on. 0 if it never ran."""
        if self._popen is None:
            return 0
        try:
            return self._popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return self._popen.wait()

    def close(self) -> None:
        if self._popen is not None and self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()

    def _lines(self, offset: int) -> list[str]:
        try:
            with self.log.open("rb") as log:
                log.seek(offset)
                return log.read(_LOG_BYTES_MAX).decode(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _config(self) -> str:
        head: dict[str, str | int | list[str]] = {
            "fleet": self._fleet,
            "name": self.name,
            "listen": self.address,
            "seeds": self.seeds,
            "data_directory": str((self.folder / "data").resolve()),
            "control_socket": str(self.socket),
            **dict(self._settings),
        }
        identity = {"ca": "ca.crt", "certificate": "agent.crt", "key": "agent.key"}
        tables = [_table(head), "[identity]\n" + _table(identity)]
        tables += ["[[streams]]\n" + _table(stream) for stream in self._streams]
        tables += ["[archive]\n" + _table({"directory": ARCHIVE})] if self._archives else []
        return "\n".join(tables)


def _is_fault(line: str) -> bool:
    return (_structured(line) or _FAULT)["level"] in _FAULT_LEVELS


def _structured(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "level" in found else None


def _table(values: Mapping[str, str | int | list[str]]) -> str:
    """TOML, whose strings, integers and arrays of strings are written as in JSON."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
