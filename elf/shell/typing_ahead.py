"""Keeps keys typed between prompts for the next prompt to read."""

from __future__ import annotations

import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def keys_kept(terminal: int) -> Iterator[None]:
    """Lets the terminal keep all keys until they are read; only Ctrl-C and the like remain signals.

    In its usual mode a terminal edits lines, takes Ctrl-D as the end of one, shows typed text amid results, and drops
    all of it at Ctrl-C. In any mode Linux keeps 4,095 bytes; further keys, Ctrl-C among them, wait at the sender until
    some are read.
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
