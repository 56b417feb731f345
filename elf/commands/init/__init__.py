"""`elf init`: writes the configuration of an agent from the web servers that are found."""

from __future__ import annotations

import grp
import os
import socket
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click

from agent import ConfigError, load_config
from agent.durable_files import write_durably
from elf.commands.ca.described import Certificate, described_file
from elf.errors import ElfError, UsageError
from elf.setup.agent_file import AgentOptions, agent_file, fleet_query, local_query, streams_of
from elf.setup.discovery import AGENT_USER, FoundLog, FoundLogs, find_logs, own_name
from elf.terminal.terminal import printable, tell
from overlay import AuthorityError

DEFAULT_FILE = Path("/etc/elf/agent.toml")
IDENTITY_FOLDERS = (Path("/etc/elf"), Path("/var/lib/elf/identity"))
"""Folders with the agent's certificate: where it is copied to, and where the agent itself renews it."""
DEFAULT_FLEET = "web"
PORT = 7700
FILE_MODE = 0o640
CERTIFICATE_BYTES_MAX = 1 << 20
EXAMPLES = """\b
Examples:
  elf init                                                      on a web server, as root
  elf init --fleet shop --seed 10.0.0.1:7700 --seed 10.0.0.2:7700
  elf init --output - --root /srv/images/web                    what it would write for another root
"""


@click.command(epilog=EXAMPLES, short_help="Write an agent.toml for the web servers of this machine.")
@click.option("--output", "file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True),
              default=DEFAULT_FILE, show_default=True, help="The file to write; - for standard output.")  # fmt: skip
@click.option("--fleet", metavar="NAME", help=f"The fleet's name; else that in the certificate, else {DEFAULT_FLEET}.")
@click.option("--name", metavar="NAME", help="The agent's name; else that in the certificate, else this machine's.")
@click.option("--listen", metavar="HOST:PORT",
              help=f"Where other agents reach this one; else this machine's address, port {PORT}.")  # fmt: skip
@click.option("--seed", "seeds", metavar="HOST:PORT", multiple=True,
              help="An agent of the fleet; may be repeated. Without any, this agent is its first.")  # fmt: skip
@click.option("--root", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
              default=Path("/"), show_default=True, help="Look for web servers and logs below DIR.")  # fmt: skip
@click.option("--force", is_flag=True, help="Write over a configuration that is there.")
def init(
    file: Path, fleet: str | None, name: str | None, listen: str | None, seeds: Sequence[str], root: Path, force: bool
) -> None:
    """Look at nginx and Apache, their configurations and logs, and write an agent.toml that reads them.

    Formats are told from the logs, or from the servers' configurations where nothing is logged yet. Nothing of the
    servers is changed. A file that is there is kept, unless it sets nothing yet, as the one that the package brings.
    """
    prints = str(file) == "-"
    if not (prints or force):
        _check_free(file)
    folder = next((folder for folder in IDENTITY_FOLDERS if (folder / "agent.pem").exists()), IDENTITY_FOLDERS[0])
    held_name, held_fleet = _identity(folder / "agent.pem")
    options = AgentOptions(
        name=name or held_name or own_name(), fleet=fleet or held_fleet or DEFAULT_FLEET,
        listen=listen or f"{_own_address()}:{PORT}", seeds=seeds, identity=str(folder),
    )  # fmt: skip
    found = find_logs(root)
    streams = streams_of(found.logs)
    text = agent_file(options, streams)
    if prints:
        click.echo(text, nl=False)
    else:
        _write(file, text)
    for line in (*_told(found), *_next_steps(file, held_name is not None, streams)):
        tell(printable(line))


def _check_free(file: Path) -> None:
    """Raises UsageError where a file sets anything that would be lost."""
    try:
        document = tomllib.loads(file.read_text(errors="replace"))
    except FileNotFoundError:
        return
    except tomllib.TOMLDecodeError:
        document = {"": ""}
    if document:
        raise UsageError(f"{file} is there already: --force writes over it, --output - shows what would be written")


def _own_address() -> str:
    """The address from which this machine would reach others; the loopback address where it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # an address of documentation: for UDP nothing is sent
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _identity(certificate: Path) -> tuple[str | None, str | None]:
    """The agent's name and fleet in a certificate, if there is one."""
    try:
        with certificate.open("rb") as file:
            described = described_file(certificate, file.read(CERTIFICATE_BYTES_MAX))
    except (OSError, AuthorityError):
        return None, None
    for one in described:
        if isinstance(one, Certificate) and not one.authority:
            return one.name, one.identity.removeprefix("elf://").split("/")[0]
    return None, None


def _write(file: Path, text: str) -> None:
    """Writes a configuration for the agent's group to read. ElfError if no agent could start with it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write_durably(draft, text.encode())
        load_config(draft)
        with suppress(KeyError, PermissionError):
            os.chown(draft, -1, grp.getgrnam(AGENT_USER).gr_gid)
        draft.chmod(FILE_MODE)
        draft.replace(file)
    except ConfigError as error:
        raise ElfError("\n".join(error.lines).replace(str(draft), str(file))) from None
    finally:
        draft.unlink(missing_ok=True)


def _told(found: FoundLogs) -> Iterator[str]:
    """The logs that were found, and why some of them are not read."""
    for log in found.logs:
        state = f"{log.files:,} files" if log.files != 1 else "there"
        yield f"{log.server}: {log.path}: {log.kind or 'left out'}, {state if log.files else 'not there yet'}"
        if log.fault:
            yield f"  {log.fault}"
    yield from found.notes
    if not found.logs:
        yield "no access log of nginx or Apache is found: name the paths of your logs in [[streams]]"


def _next_steps(file: Path, is_enrolled: bool, streams: Mapping[str, Sequence[FoundLog]]) -> Iterator[str]:
    if str(file) != "-":
        yield f"written: {file}; `elf config check {file}` says whether an agent can start with it"
    name, logs = next(((name, logs) for name, logs in streams.items() if any(log.files for log in logs)), ("", []))
    if logs:
        yield f'try now:             elf local "{local_query(logs[0])}" {logs[0].path}'
    if not is_enrolled:
        yield "next:                elf agent enroll TOKEN@HOST (the authority's folder is here: --ca CA_DIR)"
    if file == DEFAULT_FILE:
        yield f"{'next' if is_enrolled else 'then'}:                systemctl enable --now elf-agent"
    if logs:
        yield f'once the agent runs: elf query "{fleet_query(name, logs)}"'
