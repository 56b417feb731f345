"""Looks up the addresses behind the entries of `seeds`, again and again, as what they name changes.

| entry | seeds |
|---|---|
| `HOST:PORT` | that address |
| `dns:NAME:PORT` | all addresses of a name |
| `srv:_elf._tcp.NAME` | the hosts and ports of an SRV record |
| `file:PATH` | the addresses in a file, one a line; `#` begins a comment |
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlay import format_address, parse_address

DNS, SRV, FILE = "dns:", "srv:", "file:"
ADDRESSES_MAX = 256
"""Upper bound on addresses of all entries together; further ones are left out."""
FILE_BYTES_MAX = 64 << 10
LOOKUP_S = 5.0
"""Time that a name server has to answer."""


@dataclass(frozen=True, slots=True)
class FoundSeeds:
    """The addresses, each once, in the order of the entries; `faults`: entries that name none now, and why."""

    addresses: tuple[str, ...]
    faults: dict[str, str]


def is_looked_up(entry: str) -> bool:
    """Whether an entry names seeds whose addresses may change."""
    return entry.startswith((DNS, SRV, FILE))


def find_seeds(entries: Sequence[str]) -> FoundSeeds:
    """The addresses of all entries at this moment. Blocks."""
    found: dict[str, None] = {}
    faults: dict[str, str] = {}
    for entry in entries:
        try:
            for address in _addresses(entry):
                if len(found) < ADDRESSES_MAX:
                    found[address] = None
        except (OSError, ValueError) as error:
            faults[entry] = (getattr(error, "strerror", None) or str(error)).lower()
    return FoundSeeds(tuple(found), faults)


def _addresses(entry: str) -> Iterator[str]:
    if entry.startswith(DNS):
        host, port = parse_address(entry.removeprefix(DNS))
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        yield from sorted({format_address(str(at[0]), port) for *_, at in found})
    elif entry.startswith(SRV):
        yield from _of_record(entry.removeprefix(SRV))
    elif entry.startswith(FILE):
        yield from _of_file(Path(entry.removeprefix(FILE)))
    else:
        yield entry


def _of_record(name: str) -> Iterator[str]:
    """The targets of an SRV record, in the order of their priorities."""
    import dns.exception  # here: most agents need no name server
    import dns.resolver

    try:
        records = dns.resolver.resolve(name, "SRV", lifetime=LOOKUP_S)
    except dns.exception.DNSException as error:
        raise OSError(None, f"the record is not found: {error}") from None
    targets = sorted((one.priority, -one.weight, str(one.target).rstrip("."), one.port) for one in records)
    for _, _, host, port in targets:
        yield _checked(f"{host}:{port}")


def _of_file(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"is larger than {FILE_BYTES_MAX:,} bytes")
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if text := line.partition("#")[0].strip():
            try:
                yield _checked(text)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None


def _checked(address: str) -> str:
    host, port = parse_address(address)
    if port == 0:
        raise ValueError(f"{address!r}: a port is a number from 1 to 65535")
    return format_address(host, port)
