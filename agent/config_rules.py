"""What names, addresses and paths in `agent.toml` must look like. Each check raises ValueError with the reason."""

from __future__ import annotations

import re

EVERY_INTERFACE = ("0.0.0.0", "::", "*")


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`; ValueError says what is wrong.

    >>> parse_address("[::1]:7705")
    ('::1', 7705)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{text!r} is no address: write it like 127.0.0.1:7700")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, like [::1]:7700")
    if not host or not host.isprintable() or any(character in host for character in " /[]@"):
        raise ValueError(f"{text!r} names no host")
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535):
        raise ValueError(f"{text!r}: the port must be a number from 1 to 65535")
    return host, int(port)


def check_reachable(address: str) -> None:
    """An address that others can use."""
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
