"""Finds and opens the agent's control socket, and explains why it cannot be opened."""

from __future__ import annotations

import errno
import os
import socket
import stat
from dataclasses import replace
from pathlib import Path

from elf.client.errors import AgentUnreachableError
from elf.client.remote_agent import RemoteAgent, remote_agent
from elf.errors import UsageError
from elf.terminal.terminal import printable

DEFAULT_SOCKET = "/run/elf/control.sock"
BUSY_RETRY_S = 0.05
"""Delay before dialling an agent again whose queue of connections is full."""
_NAME_ONE = "start an agent (elf agent --config agent.toml), or name its socket (--socket, ELF_SOCKET)"


def control_socket(
    given: RemoteAgent | str | os.PathLike[str] | None = None, creator: Path | None = None
) -> RemoteAgent | str:
    """The agent to ask: a given one elsewhere, or the path of a control socket: the given one, else that of ELF_SOCKET,
    else the agent that ELF_AGENT names, else the default socket. `creator`: the folder of the certificate to ask with.
    """
    if given is not None and not isinstance(given, RemoteAgent):
        return os.fspath(given)
    if given is None:
        address = os.environ.get("ELF_AGENT")
        if (path := os.environ.get("ELF_SOCKET")) or not address:
            return path or DEFAULT_SOCKET
        given = remote_agent(address)
    return given if creator is None else replace(given, folder=creator)


def named_agent(
    socket: str | os.PathLike[str] | None, agent: str | None, creator: str | os.PathLike[str] | None
) -> RemoteAgent | str:
    """The agent that a client in Python names. Raises UsageError where it names two."""
    if socket is not None and agent is not None:
        raise UsageError("socket and agent name two agents: give one of them")
    folder = None if creator is None else Path(creator)
    return control_socket(socket if agent is None else remote_agent(agent), folder)


def dial_nowait(path: str) -> socket.socket | None:
    """A connection, which a Unix socket gives at once or not at all; None if the agent is too busy now.

    Raises AgentUnreachableError.
    """
    agent = socket.socket(socket.AF_UNIX)
    try:
        agent.setblocking(False)
        agent.connect(path)
    except BlockingIOError:
        agent.close()
        return None
    except OSError as error:
        agent.close()
        raise AgentUnreachableError(f"{printable(path) or repr(path)}: {_reason(path, error)}") from None
    return agent


def too_busy(path: str) -> AgentUnreachableError:
    """The error for an agent that stays busy."""
    return AgentUnreachableError(f"{printable(path)}: the agent takes no connections: it may be stopped or overloaded")


def _reason(path: str, error: OSError) -> str:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"there is no such socket: {_NAME_ONE}"
        case errno.EACCES | errno.EPERM:
            return f"not permitted: {_permitted_users(path)}"
        case errno.ECONNREFUSED if not _is_socket(path):
            return f"this is no socket: {_NAME_ONE}"
        case errno.ECONNREFUSED:
            return "nobody listens: the agent that made this socket has ended; start it again (elf agent --config ...)"
        case None:  # Python itself refuses a name that the kernel would cut
            return "too long for the name of a socket (107 bytes at most): name it by a shorter path"
        case _:
            return f"{(error.strerror or str(error)).lower()}: {_NAME_ONE}"


def _permitted_users(path: str) -> str:
    """Names the users that the socket's mode admits, where they can be determined."""
    socket_path = Path(path)
    try:
        group_may = stat.S_IMODE(socket_path.stat().st_mode) & stat.S_IWGRP
        owner, group = socket_path.owner(), socket_path.group()
    except (OSError, KeyError, NotImplementedError):
        return "ask as the user of the agent, or join its group"
    groups = f", the group {group}, and whom the rules of access name" if group_may else ""
    return f"only {owner}{groups} may ask this agent"


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return True
