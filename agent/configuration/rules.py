"""Checks of values in `agent.toml`. Each raises ValueError with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from agent.seeding.seed_addresses import DNS, FILE, SRV
from agent.sources.registry import SOURCES
from overlay import format_address, parse_address

AUTO = "auto"
MEMORY_BYTES_MIN = 1 << 20
ELEMENTS_MEMORY = "512 MiB"
JOB_MEMORY = "256 MiB"
COPIES = 2
COPIES_MAX = 4
"""Upper bound on `copies`: each costs the bytes of everything that is sealed."""
"""Default memory of each job."""
SPILL_DISK = "16 GiB"
"""Default disk space for the state of all jobs that does not fit their memory."""
SERVICE_PORT = 7699
"""Port of an authority's service unless another one is named."""
NO_DISK = "none"
SEALED_DISK = "1 GiB"
"""Default disk space for what all jobs have sealed and masters have not published."""
PROGRAM_MEMORY = "1 GiB"
"""Default memory of all programs together."""
DISK_FREE_MIN = "1 GiB"
"""Default disk space that an archive leaves free."""
DAYS_MAX = 36_500
HEAL_RETENTION = "300 s"
MAX_SKEW = "2 s"
"""Default lead of events over the wall clock up to which they move the watermark."""
HEAL_RETENTION_S_MAX = 3600
"""Upper bound on `heal_retention`."""
MAX_SKEW_MS_MAX = 60_000
"""Upper bound on `max_skew`: later events are not believed."""
_MEANT_IN_FROM = frozenset("*?,")
EVERY_INTERFACE = ("0.0.0.0", "::")


def seed_entry(text: str) -> str:
    """An entry of `seeds`, an address spelled in one way. ValueError if it is none.

    >>> seed_entry("10.0.0.1:07700"), seed_entry("srv:_elf._tcp.example.com")
    ('10.0.0.1:7700', 'srv:_elf._tcp.example.com')
    """
    kind, colon, rest = text.partition(":")
    if f"{kind}{colon}" == DNS:
        check_reachable(rest)
        return text
    if f"{kind}{colon}" in (SRV, FILE):
        if not rest or not rest.isprintable():
            raise ValueError(f"{text!r} names no {'record' if kind == 'srv' else 'file'}")
        return text
    check_reachable(text)
    return format_address(*parse_address(text))


def service_address(text: str) -> str:
    """The address of an authority's service with its port, which may be left out. ValueError if it is none.

    >>> service_address("ca.example.com"), service_address("[::1]"), service_address("10.0.0.2:7000")
    ('ca.example.com:7699', '[::1]:7699', '10.0.0.2:7000')
    """
    is_bare = ":" not in text or text.endswith("]")
    address = f"{text}:{SERVICE_PORT}" if is_bare else text
    check_reachable(address)
    return format_address(*parse_address(address))


def check_address(address: str) -> None:
    """Checks an address to listen on. Port 0 is refused: the system would choose a port that no peer knows."""
    _, port = parse_address(address)
    if port == 0:
        raise ValueError(f"{address!r}: a port is a number from 1 to 65535")


def check_reachable(address: str) -> None:
    """Checks an address that others connect to."""
    check_address(address)
    host, _ = parse_address(address)
    if host in EVERY_INTERFACE:
        raise ValueError(f"{host} stands for every interface: name an address that others can reach")


def check_name(name: str) -> None:
    """Checks the name of a fleet or agent, which appears in certificates, results and logs."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(f"{name!r} must be letters, digits, '.', '_' and '-', beginning with a letter or digit")


def check_stream(name: str) -> None:
    """Checks the name of a stream, which queries quote."""
    if name == "*":
        raise ValueError("* stands for every stream: give this one a name of its own")
    if not _MEANT_IN_FROM.isdisjoint(name):
        raise ValueError(f"{name!r}: *, ? and commas have a meaning in FROM, so no name has them")
    if not name.isprintable():
        raise ValueError(f"{name!r} has characters that cannot be shown")


def check_choice(pattern: str) -> None:
    """Checks a name or a pattern of names with * and ?."""
    if not pattern.isprintable():
        raise ValueError(f"{pattern!r} has characters that cannot be shown")


def is_pattern(choice: str) -> bool:
    return not {"*", "?"}.isdisjoint(choice)


def is_chosen(name: str, choices: Iterable[str]) -> bool:
    """Whether one of these names and patterns matches the stream.

    >>> is_chosen("api-eu", ["web", "api-*"]), is_chosen("web-2", ["web"])
    (True, False)
    """
    return any(fnmatchcase(name, choice.replace("[", "[[]")) for choice in choices)


def check_days(days: float) -> None:
    """Checks a number of days."""
    if not 0 < days <= DAYS_MAX:
        raise ValueError(f"{days:g} is no number of days from just above 0 to {DAYS_MAX:,}")


def check_table(name: str) -> None:
    """Checks the name of a look-up table, which queries quote."""
    if not name.isprintable():
        raise ValueError(f"{name!r} has characters that cannot be shown")


def memory_bytes(text: str) -> int:
    """The number of bytes in a text like `256 MiB`. Raises ValueError for other texts and less than 1 MiB.

    >>> memory_bytes("1.5 GiB")
    1610612736
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([KMGT])iB", text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no amount of memory: write it like '256 MiB' or '1.5 GiB'")
    size = int(float(match[1]) * 1024 ** ("KMGT".index(match[2]) + 1))
    if size < MEMORY_BYTES_MIN:
        raise ValueError(f"{text} is too little: 1 MiB is the least")
    return size


def sealed_disk_bytes(text: str) -> int:
    """As `memory_bytes`; 0 for `none`: sealed panes are not on disk.

    >>> sealed_disk_bytes("none"), sealed_disk_bytes("1 MiB")
    (0, 1048576)
    """
    return 0 if text == NO_DISK else memory_bytes(text)


def max_skew_ms(text: str) -> int:
    """The milliseconds in a text like `2 s` or `500 ms`. Raises ValueError for other texts and more than a minute.

    >>> max_skew_ms("2 s"), max_skew_ms("500 ms")
    (2000, 500)
    """
    match = re.fullmatch(r"([0-9]{1,9}) ?(s|ms)", text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no time: write it like '2 s' or '500 ms'")
    skew_ms = int(match[1]) * (1000 if match[2] == "s" else 1)
    if skew_ms > MAX_SKEW_MS_MAX:
        raise ValueError(f"{text} is too much: {MAX_SKEW_MS_MAX // 1000} s is the most")
    return skew_ms


def heal_retention_ms(text: str) -> int:
    """The milliseconds in a text like `300 s`. Raises ValueError for other texts and more than an hour.

    >>> heal_retention_ms("300 s")
    300000
    """
    match = re.fullmatch(r"([0-9]{1,9}) ?s", text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no time: write it like '300 s'")
    if int(match[1]) > HEAL_RETENTION_S_MAX:
        raise ValueError(f"{text} is too much: {HEAL_RETENTION_S_MAX:,} s is the most")
    return int(match[1]) * 1000


def check_source(name: str) -> None:
    """Checks that a source of this name is registered."""
    if name not in SOURCES:
        raise ValueError(_none_of(name, SOURCES))


def check_format(name: str) -> None:
    """Checks that a format of this name is registered."""
    from agent.parsing import LINE_FORMATS  # here, so that configurations without formats load no parsers

    if name != AUTO and name not in LINE_FORMATS:
        raise ValueError(_none_of(name, (AUTO, *LINE_FORMATS)))


def check_table_format(name: str) -> None:
    """Checks that a registered format of this name can hold the rows of a look-up table."""
    from agent.parsing import LINE_FORMATS

    names = [AUTO, *(row.name for row in LINE_FORMATS.values() if row.fixed_time_field is None)]
    if name not in names:
        raise ValueError(_none_of(name, names))


def _none_of(name: str, names: Iterable[str]) -> str:
    return f"{name[:80]!r} is none of {', '.join(names)}"
