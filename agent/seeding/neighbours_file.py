"""Remembers the neighbours of an agent without seeds: started again, it finds its fleet by them and begins none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from agent.durable_files import write_durably
from overlay import parse_address

NEIGHBOURS_MAX = 32
_BYTES_MAX = 16 << 10


class NeighboursFile:
    """The addresses of an agent's neighbours, one a line. `warn` gets what the disk does not take, and why."""

    def __init__(self, path: Path, warn: Callable[[str, str], None]) -> None:
        self._path = path
        self._warn = warn
        self._stored: tuple[str, ...] = ()

    def read(self) -> tuple[str, ...]:
        """The neighbours that were last stored; none where the file is missing, or no text of addresses."""
        try:
            with self._path.open("rb") as file:
                lines = file.read(_BYTES_MAX).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._warn("neighbours are not known from before", error.strerror or str(error))
            return ()
        self._stored = tuple(line for line in lines[:NEIGHBOURS_MAX] if _is_address(line))
        return self._stored

    def store(self, neighbours: Iterable[str]) -> None:
        """Stores the neighbours, if they have changed. An agent that is alone remembers those it had."""
        found = tuple(sorted(neighbours)[:NEIGHBOURS_MAX])
        if not found or found == self._stored:
            return
        try:
            write_durably(self._path, "".join(f"{address}\n" for address in found).encode())
            self._stored = found
        except OSError as error:
            self._warn("neighbours are not kept", error.strerror or str(error))


def _is_address(line: str) -> bool:
    try:
        parse_address(line)
    except ValueError:
        return False
    return True
