"""Enrols the agent of this machine: gets its certificate by a token, or from an authority whose folder is on this
machine, and writes what the agent needs to use it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from agent import service_address
from agent.enrolment.client import EnrolmentError, NewIdentity, enrol
from agent.enrolment.identity_files import own_like_folder, put_identity
from agent.enrolment.token import EnrolmentToken, TokenError, read_token
from elf.errors import ElfError, UsageError
from elf.setup.discovery import own_name
from elf.terminal.terminal import tell
from overlay import AuthorityError, replace_file

ENROLLED_FILE = "conf.d/enrolled.toml"
FOLDER_MODE, FILE_MODE = 0o750, 0o640
PROBE_BYTES = 32 << 10
"""More than a certificate, its key and that of the authority take."""


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """The agent to enrol: its name, the folder of its certificate and key, and its configuration."""

    name: str | None
    out: Path
    config: Path


def enrol_by_token(token_at: str, place: AgentPlace) -> None:
    """Enrols the agent at a service. ElfError or UsageError, one line, if it is not."""
    token, address = _read(token_at)
    enrol_agent(lambda name: enrol(address, token, name), place, address)


def enrol_agent(identity_of: Callable[[str], NewIdentity], place: AgentPlace, address: str | None = None) -> None:
    """Enrols the agent with the identity made for its name; says what was written, and the next step. ElfError if it is
    not. `address`: the service that renews the certificate, if there is one.
    """
    out, chosen = place.out, own_name() if place.name is None else place.name
    files = [out / "ca.pem", out / "agent.pem", out / "agent.key"]
    taken = next((path for path in files[1:] if path.exists()), None)
    if taken is not None:
        raise ElfError(f"{taken}: is already there and is not written over; move it away to enrol this agent anew")
    _make_folder(out)  # before the token is used up
    try:
        found = identity_of(chosen)
        put_identity(found, *files)
    except (EnrolmentError, AuthorityError) as error:
        raise ElfError(str(error)) from error
    own_like_folder(*files)
    click.echo(f"{out}: agent {chosen} of fleet {found.fleet}")
    _name_files(place.config, found, chosen, files, address)
    tell("next: elf init writes agent.toml, if there is none; then start the agent (systemctl enable --now elf-agent)")


def _read(token_at: str) -> tuple[EnrolmentToken, str]:
    text, at, host = token_at.partition("@")
    if not at or not host:
        raise UsageError("a token stands before the machine of the authority: TOKEN@HOST")
    try:
        return read_token(text), service_address(host)
    except TokenError as error:
        raise UsageError(f"the token {error}") from error
    except ValueError as error:
        raise UsageError(f"TOKEN@HOST: {error}") from error


def _make_folder(out: Path) -> None:
    try:
        if not out.is_dir():
            out.mkdir(mode=FOLDER_MODE, parents=True)
            own_like_folder(out)
        _try_to_write(out / ".probe")
    except OSError as error:
        raise ElfError(f"{out}: {(error.strerror or str(error)).lower()}: --out names another folder") from error


def _try_to_write(probe: Path) -> None:
    """Writes and removes a file as large as what is to be kept. OSError if the disk does not take it."""
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)


def _name_files(config: Path, found: NewIdentity, name: str, files: list[Path], address: str | None) -> None:
    """Writes a file of the configuration that names the identity."""
    ca, certificate, key = (json.dumps(str(path.absolute()), ensure_ascii=False) for path in files)
    text = f"""\
# Written by elf agent enroll.
fleet = {json.dumps(found.fleet)}
name = {json.dumps(name)}

[identity]
ca = {ca}
certificate = {certificate}
key = {key}
"""
    if address is not None:
        text += f"authority = {json.dumps(address)}\n"
    file = config.parent / ENROLLED_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, text.encode(), FILE_MODE)
        own_like_folder(file.parent, file)
    except (OSError, AuthorityError) as error:
        tell(f"{file} is not written ({error}): name the files in agent.toml:\n{text}")
        return
    click.echo(f"{file}: names these files in the configuration")
