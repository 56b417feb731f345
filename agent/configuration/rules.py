"""What names, addresses and paths in `agent.toml` must look like. Each check raises ValueError with the reason."""

from __future__ import annotations

import re

from overlay import parse_address

EVERY_INTERFACE = ("0.0.0.0", "::")


def check_address(address: str) -> None:
    """Where an agent listens. Port 0, which the system would choose, is one that nobody could know."""
    _, port = parse_address(address)
    if port == 0:
        raise ValueError(f"{address!r}: a port is a number from 1 to 65535")


def check_reachable(address: str) -> None:
    """An address that others can use."""
    check_address(address)
    host, _ = parse_address(address)
    if host in EVERY_INTERFACE:
        raise ValueError(f"{host} stands for every interface: name an address that others can reach")


def check_name(name: str) -> None:
    """Names of fleets and agents: they stand in certificates, results and logs."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(f"{name!r} must be letters, digits, '.', '_' and '-', beginning with a letter or digit")


def check_stream(name: str) -> None:
    """The name of a stream, which queries can quote."""
    if name == "*":
        raise ValueError("* stands for every stream: give this one a name of its own")
    if not name.isprintable():
        raise ValueError(f"{name!r} has characters that cannot be shown")


def check_path(path: str) -> None:
    """A path or a glob."""
    if "\0" in path:
        raise ValueError("has a NUL character, which no path has")
