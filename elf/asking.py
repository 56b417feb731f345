"""What the commands that ask a fleet have in common: their options, their signals, and hints at the next command."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click

from elf.terminal import printable

ANSWER_TIMEOUT_S = 15.0
"""Longer than an agent waits for its fleet, so that it can say what it waited for."""
Command = TypeVar("Command", bound=Callable[..., Any])

socket_option = click.option(
    "--socket", metavar="PATH", type=click.Path(path_type=Path),
    help="The agent's control socket; else that of ELF_SOCKET, else /run/elf/control.sock.",
)  # fmt: skip
windows_option = click.option("--windows", metavar="N", type=click.IntRange(1), help="End after N windows.")
timeout_option = click.option(
    "--timeout", "timeout_s", metavar="S", type=click.FloatRange(0, min_open=True),
    help="End after S seconds, with exit code 124.",
)  # fmt: skip


def output_option(*kinds: str) -> Callable[[Command], Command]:
    """`--output` with these choices; a table is what people get."""
    described = {"table": "tables for people", "json": "JSON lines for programs", "csv": "CSV of the rows"}
    return click.option(
        "--output", type=click.Choice(kinds), default="table", show_default=True,
        help=f"How to print it: {', '.join(described[kind] for kind in kinds)}.",
    )  # fmt: skip


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM is answered as Ctrl-C is: what runs for this command is ended in order."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def command_line(verb: str, app: str, socket: Path | None) -> str:
    """The command that does something to the same job, ready to be pasted."""
    options = ["--socket", str(socket)] if socket is not None else []
    return printable(shlex.join(["elf", verb, app, *options]))
