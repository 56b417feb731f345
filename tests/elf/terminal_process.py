"""A command on a real terminal: a pseudo-terminal whose screen an emulator draws, as a person would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

READ_BYTES = 65_536


class TerminalProcess:
    """A process on a terminal of its own. `screens` are the different pictures it has shown, the newest last."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int,
        rows: int,
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.screens: list[str] = []
        self._screen = pyte.Screen(columns, rows)
        self._screen.write_process_input = lambda data: os.write(self._terminal, data.encode())  # asked where it is
        self._stream = pyte.ByteStream(self._screen)
        self._terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._modes = self._modes_left = termios.tcgetattr(inner)
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=cwd,
            env=environment | {"TERM": "xterm-256color"} | dict(variables or {}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C reaches it as a signal
        )
        os.close(inner)

    @property
    def screen(self) -> str:
        """The picture it shows now."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def shows(self, text: str) -> bool:
        """Whether the text is on the screen, which folds what is longer than a line wherever the line ends."""
        return text in "".join(self._screen.display)

    def type(self, keys: str) -> None:
        """Presses keys, as a terminal sends them."""
        os.write(self._terminal, keys.encode())

    def until(self, condition: Callable[[str], bool], timeout_s: float) -> str:
        """Reads until the screen meets the condition; that screen. AssertionError if it takes too long."""
        deadline = time.monotonic() + timeout_s
        while not condition(self.screen):
            if not self._read(deadline):
                raise AssertionError(f"the command has ended; its screen:\n{self.screen}")
        return self.screen

    def run_to_end(self, timeout_s: float) -> int:
        """Reads until the process has ended; its exit code. AssertionError if it takes too long."""
        deadline = time.monotonic() + timeout_s
        try:
            while self._read(deadline):
                pass
            self._modes_left = termios.tcgetattr(self._terminal)
            return self.process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            self.end()

    def end(self) -> None:
        """Kills the process if it still runs; may be called again."""
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        self.process.kill()
        self.process.wait()

    def cursor_is_visible(self) -> bool:
        return not self._screen.cursor.hidden

    def is_in_order(self) -> bool:
        """Whether the process has left the terminal as it found it: the cursor, and what `stty -a` lists."""
        return self.cursor_is_visible() and self._modes_left == self._modes

    def _read(self, deadline: float) -> bool:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([self._terminal], [], [], left_s)[0]:
            raise AssertionError("the command did not end in time; its screen:\n" + (self.screens or ["nothing"])[-1])
        try:
            data = os.read(self._terminal, READ_BYTES)
        except OSError:  # Linux says EIO when nobody has the terminal open any more
            return False
        self._stream.feed(data)
        picture = self.screen
        if data and picture != (self.screens or [""])[-1]:
            self.screens.append(picture)
        return bool(data)
