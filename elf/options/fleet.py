"""Shared parts of commands that ask a fleet: options, signals, and hints at the next command."""

from __future__ import annotations

import shlex
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from elf.client.control_socket import control_socket
from elf.client.errors import AnswerTimeoutError
from elf.client.remote_agent import RemoteAgent, remote_agent
from elf.client.sync_client import SyncClient
from elf.errors import ElfError, UsageError
from elf.output.view import View
from elf.terminal.terminal import can_be_drawn_over, printable, tell

ANSWER_TIMEOUT_S = 15.0
"""Upper bound on the wait for an agent's answer: longer than the agent waits for its fleet, so that it can report
that.
"""
COMPLETION_TIMEOUT_S = 1.0
"""Upper bound on the wait for an agent's names to complete."""
NEVER = float("inf")
Command = TypeVar("Command", bound=Callable[..., Any])

_ELSEWHERE = "elf.agent"


def _note_agent(context: click.Context, _parameter: click.Parameter, address: str | None) -> None:
    context.meta[_ELSEWHERE] = None if address is None else remote_agent(address)


def _asked(context: click.Context, _parameter: click.Parameter, socket: Path | None) -> Path | RemoteAgent | None:
    """The agent that the command asks, as its parameter `socket`."""
    agent: RemoteAgent | None = context.meta.get(_ELSEWHERE)
    if agent is not None and socket is not None:
        raise UsageError("--socket and --agent name two agents: give one of them")
    return agent or socket


def socket_option(command: Command) -> Command:
    """`--socket` and `--agent`, of which a command gets the parameter `socket`."""
    command = click.option(
        "--agent", metavar="HOST:PORT", expose_value=False, is_eager=True, callback=_note_agent,
        help="An agent elsewhere, over TLS with your creator's certificate; else that of ELF_AGENT.",
    )(command)  # fmt: skip
    return click.option(
        "--socket", metavar="PATH", type=click.Path(path_type=Path), callback=_asked,
        help="The agent's control socket; else that of ELF_SOCKET, else /run/elf/control.sock.",
    )(command)  # fmt: skip


windows_option = click.option("--windows", metavar="N", type=click.IntRange(1), help="End after N windows.")
timeout_option = click.option(
    "--timeout", "timeout_s", metavar="S", type=click.FloatRange(0, min_open=True),
    help="End after S seconds, with exit code 124.",
)  # fmt: skip


def _job_names(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Names of the fleet's jobs, if the agent answers in time."""
    with suppress(ElfError):
        jobs = SyncClient(control_socket(context.params.get("socket")), COMPLETION_TIMEOUT_S).jobs()
        names = [job.app for job in jobs if job.app == printable(job.app)]
        return [CompletionItem(name) for name in names if name.startswith(typed)]
    return []


app_argument = click.argument("app", metavar="APP", shell_complete=_job_names)
optional_app_argument = click.argument("app", metavar="[APP]", required=False, shell_complete=_job_names)
every_option = click.option(
    "--every", "every_s", metavar="S", default=2.0, show_default=True, type=click.FloatRange(0.5, 3600),
    help="Seconds between two looks.",
)  # fmt: skip
rounds_option = click.option("--rounds", metavar="N", type=click.IntRange(1), help="End after N looks.")
explain_latency_option = click.option(
    "--explain-latency", is_flag=True,
    help="Predict how soon results come, phase by phase, as EXPLAIN LATENCY does; nothing is submitted.",
)  # fmt: skip
watch_option = click.option(
    "--watch", is_flag=True, help="On a terminal: each window takes the place of the one before."
)


def output_option(*kinds: str) -> Callable[[Command], Command]:
    """`--output` with these choices; the default is a table."""
    described = {
        "table": "tables for people", "json": "JSON lines for programs", "csv": "CSV of the rows",
        "plot": "a chart of the first aggregate", "markdown": "a table for documents",
    }  # fmt: skip
    return click.option(
        "--output", type=click.Choice(kinds), default="table", show_default=True,
        help=f"How to print it: {', '.join(described[kind] for kind in kinds)}.",
    )  # fmt: skip


def view(output: str, *, watch: bool) -> View:
    """The view that `--output` and `--watch` ask for; a chart on a terminal is always drawn in place.

    Raises UsageError where the output cannot be drawn over.
    """
    can = can_be_drawn_over(sys.stdout)
    if watch and output not in ("table", "plot"):
        raise UsageError(f"--watch shows a table or, with --output plot, a chart, not {output}")
    if watch and not can:
        raise UsageError("--watch needs a terminal: standard output is none that can be drawn over")
    return View(output, watch or (output == "plot" and can))


@contextmanager
def connected(
    socket: Path | RemoteAgent | None, timeout_s: float | None, if_interrupted: str = ""
) -> Iterator[tuple[SyncClient, float]]:
    """A client, and the deadline of its command (of `time.monotonic`).

    Ends the command with 124 where no answer comes before the deadline, and with 130 where it is interrupted.
    """
    deadline = NEVER if timeout_s is None else time.monotonic() + timeout_s
    client = SyncClient(control_socket(socket), min(ANSWER_TIMEOUT_S, timeout_s or ANSWER_TIMEOUT_S))
    with _terminated_like_interrupted():
        try:
            yield client, deadline
        except AnswerTimeoutError as error:
            if time.monotonic() < deadline:
                raise
            tell(f"elf: {error}")
            raise click.exceptions.Exit(124) from None
        except KeyboardInterrupt:
            tell_interrupted(f"elf: interrupted{if_interrupted}")
            raise click.exceptions.Exit(130) from None


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Handles SIGTERM like Ctrl-C, so that jobs started for this command are stopped in order."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tell_interrupted(text: str) -> None:
    """Reports an interruption below a line for the ^C, which is shown here where the terminal shows no keys."""
    if sys.stderr.isatty():
        shows_keys = termios.tcgetattr(sys.stderr)[tty.LFLAG] & termios.ECHO
        tell("" if shows_keys else "^C")
    tell(text)


def command_line(verb: str, app: str, socket: Path | RemoteAgent | None) -> str:
    """The command line of another verb for the same job, ready to be pasted."""
    name = "--agent" if isinstance(socket, RemoteAgent) else "--socket"
    options = [name, str(socket)] if socket is not None else []
    return printable(shlex.join(["elf", verb, app, *options]))
