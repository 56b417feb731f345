"""`elf shell`: statements typed at a terminal, one after the other."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from elf.client.control_socket import control_socket
from elf.client.errors import ClientError
from elf.client.sync_client import SyncClient
from elf.errors import UsageError
from elf.options.fleet import ANSWER_TIMEOUT_S, COMPLETION_TIMEOUT_S, socket_option
from elf.options.tables import named_files, tables_option
from elf.shell.typing_ahead import keys_kept
from elf.terminal.terminal import printable, tell

if TYPE_CHECKING:
    from elf.shell.shell import Shell

EXAMPLES = """\b
Examples:
  elf shell
  elf shell --socket /run/elf/control.sock
  elf shell --local access.log error.json
  elf shell --local orders.json --table products=products.csv

\b
In the shell:
  SELECT status, COUNT(*) FROM access GROUP BY status WINDOWING 10 SECONDS;
  SHOW STREAMS;
  DESCRIBE access;
  \\?

\b
Exit codes: 0 you left, 1 no such files, 2 no terminal, 130 SIGTERM.
"""


@click.command(epilog=EXAMPLES, short_help="Type queries, and see what they find.")
@click.argument("files", metavar="[LOGFILE]...", nargs=-1, type=click.Path())
@click.option("--local", is_flag=True, help="Answer over the LOGFILEs, which are the stream `logs`; no fleet is asked.")
@tables_option
@socket_option
def shell(files: tuple[str, ...], local: bool, tables: tuple[str, ...], socket: Path | None) -> int:
    """Ask a fleet, statement by statement, with completion (Tab), history and colours.

    A statement ends with `;` and may have many lines. A live query goes on until Ctrl-C, which stops the query and not
    the shell. When the agent goes away, the shell stays: the next statement is sent to the agent again.
    """
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("elf shell needs a terminal: elf query -f - runs statements from standard input")
    if files and not local:
        raise UsageError("elf shell takes files with --local only: else it asks a fleet")
    if local and not files:
        raise UsageError("elf shell --local takes one LOGFILE or more")
    if tables and not local:
        raise UsageError("elf shell takes --table with --local only: a fleet's tables are in agent.toml")
    signal.signal(signal.SIGTERM, _leave)
    with keys_kept(sys.stdin.fileno()):
        typed = _over_files(files, named_files(tables)) if local else _with_fleet(socket)
        signal.signal(signal.SIGTERM, typed.terminate)
        return typed.run()


def _leave(_signal: int, _frame: FrameType | None) -> None:
    """Answers SIGTERM until there is a shell: the terminal is put in order."""
    raise SystemExit(130)


def _with_fleet(socket: Path | None) -> Shell:
    from elf.shell.shell import Shell
    from elf.statements.fleet_backend import FleetBackend, QueryOptions

    path = control_socket(socket)
    patient, brief = (
        FleetBackend(SyncClient(path, timeout_s), socket, QueryOptions())
        for timeout_s in (ANSWER_TIMEOUT_S, COMPLETION_TIMEOUT_S)
    )
    try:
        status = SyncClient(path, ANSWER_TIMEOUT_S).status()
        tell(printable(f"{status.name} of fleet {status.fleet}, {status.peers:,} peers. " + r"\? helps, \q leaves."))
    except ClientError as error:
        tell(f"{error}\nWhat you type is asked when the agent is there.")
    return Shell(patient, brief, history_file())


def _over_files(files: tuple[str, ...], tables: dict[str, str]) -> Shell:
    from elf.commands.local import DEFAULT_STREAM
    from elf.local import LocalOptions, LocalSource
    from elf.shell.shell import Shell
    from elf.statements.file_backend import FileBackend

    if "-" in files:
        raise UsageError("elf shell reads what you type from standard input: name files")
    options = LocalOptions(arrival_ms=time.time_ns() // 1_000_000, tables=tables)
    backend = FileBackend([LocalSource(DEFAULT_STREAM, files)], options)
    many = "1 file" if len(files) == 1 else f"{len(files):,} files"
    tell(rf"The stream {DEFAULT_STREAM} is {many}. \? helps, \q leaves.")
    return Shell(backend, backend, history_file())


def history_file() -> Path | None:
    """Path of the history: ELF_HISTORY, else below XDG_STATE_HOME or ~/.local/state; None without a home directory."""
    if named := os.environ.get("ELF_HISTORY"):
        return Path(named)
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    except RuntimeError:
        return None
    return state / "elf" / "history"
