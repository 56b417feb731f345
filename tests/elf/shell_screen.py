"""`elf shell` on a real terminal, used as a person uses it: keys in, a screen out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from terminal_process import TerminalProcess

PATIENCE_S = 30.0
COLUMNS, ROWS = 100, 40
TABS = 6
"""Upper bound on the times that a key is pressed."""
TAB, ENTER, UP, CTRL_C, CTRL_D = "\t", "\r", "\x1b[A", "\x03", "\x04"


class ShellScreen:
    """A running shell."""

    def __init__(self, terminal: TerminalProcess) -> None:
        self._terminal = terminal

    def type(self, keys: str) -> None:
        self._terminal.type(keys)

    def until(self, condition: Callable[[str], bool] | str) -> str:
        """Waits for a text, which the terminal may have folded, or for what meets a condition; the screen then."""
        if isinstance(condition, str):
            text = condition
            return self._terminal.until(lambda _: self._terminal.shows(text), PATIENCE_S)
        return self._terminal.until(condition, PATIENCE_S)

    def completes(self, text: str) -> str:
        """Presses Tab until a text is there: a Tab is dropped while the completion before is not over."""
        for _ in range(TABS):
            self.type(TAB)
            with suppress(AssertionError):
                return self._terminal.until(lambda _: self._terminal.shows(text), PATIENCE_S / TABS)
        return self.until(text)

    def prompts(self) -> str:
        """Waits until the shell waits for a statement."""
        return self.until(lambda screen: screen.rstrip().split("\n")[-1].strip() == "elf>")

    def leave(self) -> int:
        """Ctrl-D at an empty prompt; the exit code."""
        self.type(CTRL_D)
        return self._terminal.run_to_end(PATIENCE_S)

    @property
    def shown(self) -> str:
        """What is on the screen now."""
        return self._terminal.screen

    def left_in_order(self) -> bool:
        """Whether the terminal is as it was before the shell."""
        return self._terminal.is_in_order()

    @property
    def process_id(self) -> int:
        return self._terminal.process.pid

    def ends(self) -> int:
        """Waits for the end; the exit code."""
        return self._terminal.run_to_end(PATIENCE_S)


@contextmanager
def shell(*arguments: str, history: Path, cwd: Path | None = None) -> Iterator[ShellScreen]:
    """`elf shell ARGUMENTS`, at its first prompt; killed if it still runs in the end."""
    terminal = TerminalProcess(
        [sys.executable, "-m", "elf", "shell", *arguments], columns=COLUMNS, rows=ROWS, cwd=cwd,
        variables={"ELF_HISTORY": str(history)},
    )  # fmt: skip
    screen = ShellScreen(terminal)
    try:
        screen.prompts()
        yield screen
    finally:
        terminal.end()
