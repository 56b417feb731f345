"""The `elf` command: one verb a file in `elf/commands/`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Any

import click

from elf.errors import ElfError, UsageError
from elf.options.lazy_group import LazyGroup
from elf.terminal.terminal import prepare_streams, printable, tell

COMMANDS = (
    "agent",
    "ask",
    "batch",
    "ca",
    "completion",
    "config",
    "creator",
    "dashboard",
    "demo",
    "doctor",
    "drain",
    "elements",
    "emit",
    "follow",
    "grouping",
    "init",
    "jobs",
    "latency",
    "local",
    "logs",
    "place",
    "query",
    "reload",
    "rights",
    "shell",
    "status",
    "stop",
    "submit",
    "tap",
    "top",
    "tree",
    "update",
)
"""Verbs of `elf`. Each is a click command in the module of its name in `elf/commands/`, loaded when it is called, since
an agent needs no terminal and `elf status` no query engine.
"""
EPILOG = 'Try: elf local "SELECT status, COUNT(*) FROM logs GROUP BY status" access.log'


class ReaderGoneError(Exception):
    """The reader of standard output has gone (`| head`)."""


class _Commands(LazyGroup):
    """Raises ReaderGoneError for a closed pipe: click itself would end with exit code 1."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if not gc.isenabled():  # as `main` leaves it
            gc.freeze()
            gc.enable()
        # Polars, once loaded, lets the kernel restart a read that Ctrl-C interrupts: a quiet pipe would block for ever.
        signal.siginterrupt(signal.SIGINT, True)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGoneError from error


@click.group(
    cls=_Commands,
    commands_in="elf.commands",
    verbs=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="elf-stream", prog_name="elf")
def cli() -> None:
    """ELF answers questions about web server logs where they are written, without a server in the middle."""


def main() -> None:
    """Runs the command line; errors become one line on stderr: exit code 2 for usage, 1 at run time."""
    gc.disable()  # nothing of what a command loads at first is garbage: not to look for it saves a twelfth of the start
    prepare_streams()
    try:
        code = cli.main(prog_name="elf", standalone_mode=False) or 0
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        tell(error.format_message())
        code = 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "elf"
        code = _complain(f"{error.format_message()} (see {command} --help)", command, 2)
    except click.ClickException as error:
        code = _complain(error.format_message(), "elf", 1)
    except UsageError as error:
        code = _complain(str(error), "elf", 2)
    except ElfError as error:
        code = _complain(str(error), "elf", 1)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except (BrokenPipeError, ReaderGoneError):
        code = 141
    except OSError as error:
        where = error.filename or "cannot write the output"
        code = _complain(f"{where}: {(error.strerror or str(error)).lower()}", "elf", 1)
    if code:
        _flush_or_drop()
    sys.exit(code)


def _flush_or_drop() -> None:
    """Flushes standard output, so that the interpreter does not complain about it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, command: str, code: int) -> int:
    """Prints an error, which may have several lines if it shows a place in a query; returns the exit code."""
    tell("\n".join(printable(line) for line in f"{command}: {message}".split("\n")))
    return code
