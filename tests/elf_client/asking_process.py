"""`elf` asking an agent, run as a person runs it: with streams, signals and an exit code."""

from __future__ import annotations

import os
import pty
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from unittest import mock

from elf_process import Finished, elf

PATIENCE_S = 120.0
"""Upper bound on waiting for anything; a busy machine is many times slower than an idle one."""


class Lines:
    """Lines that a process writes, with a limit on the wait for the next one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        with suppress(ValueError):  # the stream is closed meanwhile
            for line in stream:
                self._lines.put(line)
        self._lines.put(None)

    def next(self, patience_s: float = PATIENCE_S) -> str:
        """The next line, without its end; "" if there is none."""
        line = self._lines.get(timeout=patience_s)
        if line is None:
            self._lines.put(None)
            return ""
        return line.decode().removesuffix("\n")

    def rest(self) -> str:
        """All that follows until the process closes the stream."""
        lines = []
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            lines.append(line)
        self._lines.put(None)
        return b"".join(lines).decode()


class Asking:
    """A running `elf` process; `out` and `err` are there where they are pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if process.stdout is not None:
            self.out = Lines(process.stdout)
        if process.stderr is not None:
            self.err = Lines(process.stderr)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def code(self) -> int:
        """The exit code, once it has ended."""
        return self._process.wait(PATIENCE_S)


@contextmanager
def asking(*arguments: str | bytes, socket: Path | None = None, **options: Any) -> Iterator[Asking]:
    """`elf ARGUMENTS`, asking the agent at `socket`; killed if it still runs in the end."""
    environment = os.environ | ({"ELF_SOCKET": str(socket)} if socket else {})
    command = [sys.executable, "-m", "elf", *arguments]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **(pipes | options)) as process:
        try:
            yield Asking(process)
        finally:
            if process.poll() is None:
                process.kill()


def ask(*arguments: str | bytes, socket: Path | None = None, stdin: bytes = b"") -> Finished:
    """Runs a command in this process until it ends by itself."""
    with mock.patch.dict(os.environ, {"ELF_SOCKET": str(socket)} if socket else {}):
        return elf(*map(os.fsdecode, arguments), stdin=stdin)


class Terminal:
    """A pseudo terminal; `text` is all that was shown on it so far."""

    def __init__(self) -> None:
        self._master, self.end = pty.openpty()
        self._shown = bytearray()

    def until(self, condition: Callable[[str], bool]) -> str:
        """Reads until what was shown meets the condition."""
        deadline = time.monotonic() + PATIENCE_S
        os.set_blocking(self._master, False)
        while not condition(self._shown.decode(errors="replace")):
            assert time.monotonic() < deadline, f"the terminal shows {bytes(self._shown)!r}"
            try:
                self._shown += os.read(self._master, 65536)
            except BlockingIOError:
                time.sleep(0.01)
        return self._shown.decode()

    def close(self) -> None:
        os.close(self._master)
        os.close(self.end)
