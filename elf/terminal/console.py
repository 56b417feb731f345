"""The rich console that tables, trees and charts are printed on."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

WIDTH_MIN = 20
"""Narrowest console, so that a word has room in a cell."""


def open_console(stream: TextIO) -> Console:
    """A console on a stream, as wide as the terminal (or COLUMNS) says, but at least `WIDTH_MIN`."""
    console = _Console(file=stream, highlight=False)
    console.width = max(console.width, WIDTH_MIN)
    return console


class _Console(Console):
    """Raises BrokenPipeError when its reader has gone; the command line chooses the exit code."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
