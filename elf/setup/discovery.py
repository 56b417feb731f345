"""Finds the access logs of a machine: what web servers are configured to write, else what lies where they write."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.parsing import LINE_FORMATS, schema, sniff
from agent.sources import SourceError, SourceFile
from elf.setup.apache import SERVER as APACHE
from elf.setup.apache import apache_logs
from elf.setup.nginx import SERVER as NGINX
from elf.setup.nginx import nginx_logs
from elf.setup.server_logs import ServerLog, matching

USUAL_PLACES = (
    (NGINX, "/var/log/nginx/*access*.log"),
    (APACHE, "/var/log/apache2/*access*.log"),
    (APACHE, "/var/log/httpd/*access_log"),
)
"""Patterns of logs whose server's configuration names none."""
LOGS_MAX = 1000
HEAD_BYTES = 256 << 10
AGENT_USER, LOG_GROUP = "elf", "adm"
"""User of the agent's service, and the group with which it reads logs."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """An access log: the server, its path or glob, format and columns, the files there now, and what is wrong with it.

    Without `kind`, no agent can read it as it is.
    """

    server: str
    path: str
    kind: str | None
    columns: tuple[str, ...]
    files: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class FoundLogs:
    """All access logs, and notes for the person who sets the agent up."""

    logs: tuple[FoundLog, ...]
    notes: tuple[str, ...]


def find_logs(root: Path = Path("/")) -> FoundLogs:
    """Looks at the web servers below a root folder. Reads the beginnings of their logs."""
    configured = (nginx_logs(root), apache_logs(root))
    logs = [log for server in configured for log in server.logs]
    named = {log.server for log in logs}
    for server, pattern in USUAL_PLACES:
        if server not in named:
            logs += [ServerLog(server, f"/{path.relative_to(root)}") for path in matching(root, pattern)]
    notes = [note for server in configured for note in server.notes]
    found = [_looked_at(log, root) for log in logs[:LOGS_MAX] if log.path.isprintable()]
    return FoundLogs(tuple(found), tuple(notes))


def _looked_at(log: ServerLog, root: Path) -> FoundLog:
    """A log with the format of what is in it, or else the one its server's configuration tells."""
    files = [path for path in matching(root, log.path) if path.is_file()]
    largest = max(files, key=_size, default=None)
    if largest is None or not _size(largest):
        fault = (
            ""
            if log.kind
            else f"{log.path}: is empty so far, and its server's configuration names no format that agents read"
        )
        fault = fault or (unreadable(largest) if largest else None) or ""
        return FoundLog(log.server, log.path, log.kind, tuple(_columns_of(log.kind)), len(files), fault)
    try:
        form = sniff(SourceFile(str(largest)).head(HEAD_BYTES), log.path)
    except SourceError as error:
        return FoundLog(log.server, log.path, log.kind, tuple(_columns_of(log.kind)), len(files), str(error))
    columns = tuple(schema(form)[0])
    return FoundLog(log.server, log.path, form.kind, columns, len(files), unreadable(largest) or "")


def _columns_of(kind: str | None) -> Iterator[str]:
    """The columns that a format always has."""
    if kind is not None and LINE_FORMATS[kind].fixed_time_field is not None:
        yield from schema(sniff(b"", "", kind))[0]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def unreadable(path: Path) -> str | None:
    """The reason why the user of the agent's service cannot read a file; None if it can, or there is no such user."""
    try:
        user = pwd.getpwnam(AGENT_USER)
        groups = {user.pw_gid, grp.getgrnam(LOG_GROUP).gr_gid}
    except KeyError:
        return None
    for place, right in ((path, 4), *((folder, 1) for folder in path.absolute().parents)):
        try:
            status = place.stat()
        except OSError as error:
            return f"{place}: {(error.strerror or str(error)).lower()}"
        owned, shared = status.st_uid == user.pw_uid, status.st_gid in groups
        mode = status.st_mode >> (6 if owned else 3 if shared else 0)
        if not mode & right:
            return f"{place} may not be read by user {AGENT_USER} and group {LOG_GROUP}: chgrp {LOG_GROUP} {place}"
    return None


def own_name() -> str:
    """The name of this machine, as an agent may have it."""
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in _host())
    return name.strip("-_")[:64] or "agent-1"


def _host() -> str:
    return os.uname().nodename.split(".")[0]
