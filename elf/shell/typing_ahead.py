"""The terminal between prompts: it keeps what is typed, for the next prompt to read."""

from __future__ import annotations

import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def keys_kept(terminal: int) -> Iterator[None]:
    """Keeps all keys as they are typed, until they are read; only Ctrl-C and its like are signals, as ever.

    In its usual mode a terminal edits lines, takes Ctrl-D for the end of one, shows what is typed in the midst of
    results, and drops all of it when Ctrl-C comes. In any mode Linux keeps 4,095 bytes; the rest, a Ctrl-C among it
    too, waits with whoever sends it until some are read.
    """
    before = termios.tcgetattr(terminal)
    mode = termios.tcgetattr(terminal)
    mode[tty.IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
    mode[tty.LFLAG] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    mode[tty.LFLAG] |= termios.ISIG | termios.NOFLSH
    mode[tty.CC][termios.VMIN], mode[tty.CC][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(terminal, termios.TCSANOW, before)
