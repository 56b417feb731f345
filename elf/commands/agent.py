"""`elf agent`: the daemon beside a web server."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elf.errors import ElfError, UsageError
from elf.options.configuration import read_config, read_identity

if TYPE_CHECKING:
    from elf.setup.enrolment import AgentPlace

LIMITS = {
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0",
}
"""Limits on threads: an agent is a guest on its machine and works on small blocks, for which a thread per core is
waste. And on the memory that Polars keeps for later, in one heap of its own.
"""
HEAPS = ((-8, 2), (-3, 8 << 20), (-1, 8 << 20))
"""Parameters of the C library's `mallopt`: two heaps at most (M_ARENA_MAX), which keep blocks of less than 8 MiB to use
them again (M_MMAP_THRESHOLD), and give back what is free at their ends beyond that (M_TRIM_THRESHOLD).
"""
PROGRAM = (sys.executable, "-I", "-B", "-m", "elf.program")
"""Command that runs a job's code: Python without this process's environment and folders."""
EXAMPLES = """\b
Examples:
  elf agent --config /etc/elf/agent.toml
"""

ENROL_EXAMPLES = """\b
Examples:
  elf agent enroll elf1-...@10.0.0.2
  elf agent enroll --ca /srv/web-ca
  elf agent enroll elf1-...@ca.example.com:7699 --name web-5 --out web-5 --config web-5/agent.toml
"""
CONFIG_FILE = Path("/etc/elf/agent.toml")
IDENTITY_DIRECTORY = Path("/var/lib/elf/identity")


@click.group(
    invoke_without_command=True, epilog=EXAMPLES, short_help="Run the agent beside a web server, or enrol it first."
)
@click.option("--config", "file", metavar="FILE", type=click.Path(path_type=Path),
              help="The agent's configuration; `elf config check FILE` names its faults.")  # fmt: skip
@click.pass_context
def agent(context: click.Context, file: Path | None) -> None:
    """Run one agent of the fleet until it is told to end (SIGTERM, Ctrl-C).

    It logs to standard error, one JSON object per line. On the first signal it hands its responsibilities over to other
    agents and ends with exit code 0; on a second one it ends at once.
    """
    if context.invoked_subcommand is not None:
        return
    if file is None:
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    _run(file)


def _run(file: Path) -> None:
    limit_threads()
    limit_heaps()
    config = read_config(file)
    identity = read_identity(config)
    # Imported only now: Polars and others read the limits when they are loaded.
    from agent import StartError, run_agent

    try:
        code = run_agent(config, identity, PROGRAM)
    except StartError as error:
        raise ElfError(str(error)) from error
    if code:
        raise click.exceptions.Exit(code)


@agent.command(epilog=ENROL_EXAMPLES, short_help="Get this machine's agent a certificate, by a token.")
@click.argument("token_at", metavar="[TOKEN@HOST[:PORT]]", required=False)
@click.option("--ca", "directory", metavar="CA_DIR", type=click.Path(file_okay=False, path_type=Path),
              help="The authority's folder, where it is on this machine: no token is needed.")  # fmt: skip
@click.option("--password-file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="With --ca: a file whose first line is the password of its key; else it is asked for.")  # fmt: skip
@click.option("--name", help="The agent's name; else this machine's.")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path), default=IDENTITY_DIRECTORY, show_default=True,
              help="Where ca.pem, agent.pem and agent.key go: a folder that the agent may write.")  # fmt: skip
@click.option("--config", "file", metavar="FILE", type=click.Path(path_type=Path), default=CONFIG_FILE,
              show_default=True, help="The agent's configuration, whose conf.d gets enrolled.toml.")  # fmt: skip
def enroll(
    token_at: str | None, directory: Path | None, password_file: Path | None, name: str | None, out: Path, file: Path
) -> None:
    """Make a key on this machine, and have the authority at HOST sign its certificate, by a token of `elf ca token`.

    `elf ca serve` has to run there. The key never leaves this machine. The token says which authority is trusted; it is
    good for one agent. The certificate is renewed by the agent itself, from the same service.

    On the machine with the authority's folder itself, --ca takes the place of the token; nothing has to run.
    """
    from elf.setup.enrolment import AgentPlace, enrol_by_token

    place = AgentPlace(name, out, file)
    if token_at is not None and directory is None:
        enrol_by_token(token_at, place)
    elif directory is not None and token_at is None:
        _enrol_here(directory, password_file, place)
    else:
        raise UsageError("either TOKEN@HOST, or --ca CA_DIR where the authority's folder is on this machine")


def _enrol_here(directory: Path, password_file: Path | None, place: AgentPlace) -> None:
    """Enrols the agent by the authority's folder."""
    from agent.enrolment.client import NewIdentity
    from elf.commands.ca.options import AGENT_DAYS, authority_errors, unlocked
    from elf.setup.enrolment import enrol_agent
    from overlay import AuthorityDirectory

    def identity_of(name: str) -> NewIdentity:
        authority = unlocked(folder, password_file)
        found = folder.issue(authority, name, days=AGENT_DAYS)
        return NewIdentity(found.certificate_pem, found.key_pem, authority.certificate_pem, authority.fleet)

    with authority_errors():
        folder = AuthorityDirectory(directory)
        enrol_agent(identity_of, place)


def limit_threads() -> None:
    """Sets the LIMITS that the environment does not, for Polars and others, which read them when they are loaded."""
    for name, limit in LIMITS.items():
        os.environ.setdefault(name, limit)


def limit_heaps() -> None:
    """Bounds what the C library keeps of memory that is free, where it can do that."""
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        for parameter, value in HEAPS:
            limit(parameter, value)
