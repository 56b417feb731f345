"""Binds the Unix socket of clients, for its owner and group only; replaces the socket of a dead agent."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from agent.errors import StartError

SOCKET_MODE = 0o660
BACKLOG = 64


@contextmanager
def no_longer_there(path: Path, identity: tuple[int, int]) -> Iterator[None]:
    """Removes the socket at the end, unless another has been put in its place."""
    try:
        yield
    finally:
        try:
            if _identity(path.lstat()) == identity:
                path.unlink()
        except OSError:
            pass  # it is gone already


async def bind_control_socket(path: Path, key: str = "control_socket") -> tuple[trio.SocketListener, tuple[int, int]]:
    """Listens at the path; returns the listener and (device, inode) of the socket. Raises StartError, one line, which
    names the `key` in `agent.toml`."""
    try:
        return await _bound(path)
    except _RefusedError as error:
        raise StartError(f"{key} {path}: {error}") from None


class _RefusedError(Exception):
    """The reason why a path cannot be used."""


async def _bound(path: Path) -> tuple[trio.SocketListener, tuple[int, int]]:
    await _clear(path)
    socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        # The mask gives the socket its mode from the first moment. (No other thread runs yet.)
        mask = os.umask(0o777 & ~SOCKET_MODE)
        try:
            await socket.bind(os.fspath(path))
        finally:
            os.umask(mask)
        socket.listen(BACKLOG)
        return trio.SocketListener(socket), _identity(path.lstat())
    except OSError as error:
        socket.close()
        raise _RefusedError(_reason(error)) from None


async def _clear(path: Path) -> None:
    """Removes the socket of an agent that has ended, and nothing else. Raises _RefusedError if the path is taken."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise _RefusedError(f"there is no folder {path.parent}") from None
        return
    except OSError as error:
        raise _RefusedError(_reason(error)) from None
    if not stat.S_ISSOCK(status.st_mode):
        raise _RefusedError("something is there already that is no socket")
    try:
        stream = await trio.open_unix_socket(path)
    except ConnectionRefusedError:
        _remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _RefusedError(_reason(error)) from None
    else:
        await stream.aclose()
        raise _RefusedError("another agent answers there")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _RefusedError(f"cannot be replaced: {_reason(error)}") from None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
