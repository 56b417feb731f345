"""Reads and checks the configuration of an agent: `agent.toml`, `conf.d` beside it, and the environment.

All faults are found in one go, each reported with its line and key, as in
`agent.toml:12: streams[0].pathz: unknown key (did you mean paths?)`.
"""

from __future__ import annotations

import os
import re
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from agent.access.rules import AccessRule
from agent.configuration.access import (
    ClientsConfig,
    access_faults,
    clients_faults,
    resolved_access,
    resolved_clients,
)
from agent.configuration.document import ArchiveKeys, ConfigDocument, IdentityKeys, MetricsKeys, StreamKeys
from agent.configuration.faults import Fault, bare, struct_faults
from agent.configuration.layers import ConfigError as ConfigError
from agent.configuration.layers import Layers, read_layers
from agent.configuration.rules import (
    EVERY_INTERFACE,
    heal_retention_ms,
    is_pattern,
    max_skew_ms,
    memory_bytes,
    sealed_disk_bytes,
    seed_entry,
    service_address,
)
from agent.configuration.schema import PREFIX, overrides
from agent.seeding.seed_addresses import FILE
from agent.sources.reader import EventSource, ReadFrom, StreamClock
from agent.sources.registry import DEFAULT_SOURCE, SOURCES
from overlay import format_address, parse_address

CONTROL_SOCKET = "control.sock"
SOCKET_PATH_BYTES_MAX = 107
"""Upper bound on the path in the kernel's address of a Unix socket."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A stream of this agent: its source, and how its lines are read."""

    name: str
    source: EventSource
    format: str
    time_field: str | None
    read_from: ReadFrom
    clock: StreamClock = "wall"


@dataclass(frozen=True, slots=True)
class TableConfig:
    """A look-up table of this agent; `path` is absolute."""

    name: str
    path: str
    format: str


@dataclass(frozen=True, slots=True)
class ArchiveConfig:
    """Folder and retention of archived rows, and disk space left free; `streams` are patterns of names."""

    directory: Path
    keep_days: float
    disk_free_min_bytes: int
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The place of the agent's metrics: an address `host:port`, or the path of a Unix socket."""

    listen: str | None
    socket: Path | None


@dataclass(frozen=True, slots=True)
class IdentityConfig:
    """The files of this agent's identity."""

    ca: Path
    certificate: Path
    key: Path
    key_password_file: Path | None
    """File with the password of the key, if it has one."""
    authority: str | None
    """Address of the authority's service, which renews the certificate."""
    crl: Path | None
    """File in which this agent is given lists of revoked certificates, if any."""


@dataclass(frozen=True, slots=True)
class ElementsConfig:
    """The share of this agent in the keyed elements of jobs."""

    cores: float
    memory_bytes: int
    weight: float


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration; paths are absolute. `layers` has the places of keys, for faults found later."""

    path: Path
    fleet: str
    name: str
    listen: str
    advertise: str | None
    seeds: tuple[str, ...]
    data_directory: Path
    control_socket: Path
    job_memory_bytes: int
    spill_disk_bytes: int
    sealed_disk_bytes: int
    program_memory_bytes: int
    max_skew_ms: int
    due_looks: bool
    heal_ms: int
    copies: int
    rack: str | None
    log_level: str
    identity: IdentityConfig
    streams: tuple[StreamConfig, ...]
    tables: tuple[TableConfig, ...]
    archive: ArchiveConfig | None
    access: tuple[AccessRule, ...]
    clients: ClientsConfig | None
    metrics: MetricsConfig | None
    elements: ElementsConfig
    layers: Layers

    def place(self, *key: str | int) -> str:
        """The position of a key, with which faults begin: `agent.toml:12: identity.key`."""
        return self.layers.place(key)


def load_config(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Reads and checks a configuration; `environment` is that of this process unless it is given. Raises ConfigError
    with every fault that was found.
    """
    layers = read_layers(path)
    misspelt = _override(layers, os.environ if environment is None else environment)
    document = layers.document
    faults = [
        *struct_faults(document, ConfigDocument),
        *_stream_faults(document),
        *_twins(layers),
        *access_faults(document),
    ]
    if not (faults or misspelt):
        file = msgspec.convert(document, ConfigDocument)
        config = _resolved(path, file, layers)
        faults = _faults_together(file, config)
    if faults or misspelt:
        raise ConfigError((*layers.error(faults).lines, *misspelt))
    return config


def _override(layers: Layers, environment: Mapping[str, str]) -> list[str]:
    """Puts the variables that name a key above the files; returns the faults of those that name none. An empty variable
    counts as one that is not set."""
    known, faults = overrides(), []
    for variable in sorted(name for name, text in environment.items() if name.startswith(PREFIX) and text):
        if variable in known:
            path, kind = known[variable]
            layers.set(variable, path, _read(environment[variable], bare(kind)))
        else:
            close = get_close_matches(variable[:200], known, n=1, cutoff=0.6)
            faults.append(f"{variable}: unknown variable (did you mean {close[0]}?)" if close else
                          f"{variable}: unknown variable (elf config schema lists those that there are)")  # fmt: skip
    return faults


def _read(text: str, kind: Any) -> Any:
    """The value in a variable: a list has commas between its elements."""
    if typing.get_origin(kind) is list:
        (element,) = typing.get_args(kind)
        return [_read(part.strip(), bare(element)) for part in text.split(",")]
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    return text if kind is str or not _NUMBER.fullmatch(text) else tomllib.loads(f"value = {text}")["value"]


def _resolved(path: Path, file: ConfigDocument, layers: Layers) -> Config:
    base = path.absolute().parent
    data_directory = base / file.data_directory
    socket = base / file.control_socket if file.control_socket else data_directory / CONTROL_SOCKET
    return Config(
        path=path,
        fleet=file.fleet,
        name=file.name,
        listen=_spelled_one_way(file.listen),
        advertise=None if file.advertise is None else _spelled_one_way(file.advertise),
        seeds=tuple(dict.fromkeys(_resolved_seed(base, entry) for entry in file.seeds)),
        data_directory=data_directory,
        control_socket=socket,
        job_memory_bytes=memory_bytes(file.job_memory),
        spill_disk_bytes=memory_bytes(file.spill_disk),
        sealed_disk_bytes=sealed_disk_bytes(file.sealed_disk),
        program_memory_bytes=memory_bytes(file.program_memory),
        max_skew_ms=max_skew_ms(file.max_skew),
        due_looks=file.due_looks,
        heal_ms=heal_retention_ms(file.heal_retention),
        copies=file.copies,
        rack=file.rack,
        log_level=file.log_level,
        identity=_resolved_identity(base, file.identity),
        streams=tuple(_resolved_stream(base, stream) for stream in file.streams),
        tables=tuple(TableConfig(name, str(base / one.file), one.format) for name, one in file.tables.items()),
        archive=None if file.archive is None else _resolved_archive(base, file.archive),
        access=resolved_access(file.access),
        clients=resolved_clients(file.clients),
        metrics=None if file.metrics is None else _resolved_metrics(base, file.metrics),
        elements=ElementsConfig(file.elements.cores, memory_bytes(file.elements.memory), file.elements.weight),
        layers=layers,
    )


def _resolved_seed(base: Path, entry: str) -> str:
    if entry.startswith(FILE):
        return f"{FILE}{base / entry.removeprefix(FILE)}"
    return seed_entry(entry)


def _resolved_archive(base: Path, file: ArchiveKeys) -> ArchiveConfig:
    size = memory_bytes(file.disk_free_min)
    return ArchiveConfig(base / file.directory, float(file.keep_days), size, tuple(file.streams))


def _resolved_metrics(base: Path, file: MetricsKeys) -> MetricsConfig:
    listen = None if file.listen is None else _spelled_one_way(file.listen)
    return MetricsConfig(listen, None if file.socket is None else base / file.socket)


def _resolved_identity(base: Path, file: IdentityKeys) -> IdentityConfig:
    password, crl = (None if path is None else base / path for path in (file.key_password_file, file.crl))
    authority = None if file.authority is None else service_address(file.authority)
    return IdentityConfig(base / file.ca, base / file.certificate, base / file.key, password, authority, crl)


def _spelled_one_way(address: str) -> str:
    """Normalises an address, since addresses are compared as text."""
    return format_address(*parse_address(address))


def _resolved_stream(base: Path, table: Mapping[str, Any]) -> StreamConfig:
    stream = msgspec.convert(table, StreamKeys)
    kind = SOURCES[stream.source]
    keys = {field.encode_name for field in msgspec.structs.fields(kind.options)}
    options = msgspec.convert({key: value for key, value in table.items() if key in keys}, kind.options)
    source = kind.build(options, base)
    return StreamConfig(stream.name, source, stream.format, stream.time_field, stream.read_from, stream.clock)


def _stream_faults(document: Mapping[str, Any]) -> list[Fault]:
    """Faults of streams, each held against the keys of every stream and those of its source."""
    faults: list[Fault] = []
    streams = document.get("streams")
    for number, stream in enumerate(streams if isinstance(streams, list) else ()):
        if not isinstance(stream, dict):
            continue
        name = stream.get("source", DEFAULT_SOURCE)
        kind = SOURCES.get(name) if isinstance(name, str) else None
        if kind is not None:
            faults += struct_faults(stream, StreamKeys, kind.options, path=("streams", number))
        else:  # the other keys belong to a source that is not known
            own = {field.encode_name for field in msgspec.structs.fields(StreamKeys)}
            known = {key: value for key, value in stream.items() if key in own}
            faults += struct_faults(known, StreamKeys, path=("streams", number))
    return faults


def _faults_together(file: ConfigDocument, config: Config) -> list[Fault]:
    """Faults of keys whose values are valid each by itself."""
    faults = []
    host, _ = parse_address(file.listen)
    if host in EVERY_INTERFACE and file.advertise is None:
        message = f"{host} stands for every interface: set advertise to an address others can reach"
        faults.append(Fault(("listen",), message))
    if (excess := _socket_excess(config.control_socket)) is not None:
        if file.control_socket:
            faults.append(Fault(("control_socket",), excess))
        else:
            faults.append(Fault(("data_directory",), f"{excess}: set control_socket to a shorter one"))
    own = (*_metrics_faults(config), *_clock_faults(config), *_pointless_choices(config))
    return [*faults, *own, *clients_faults(config.listen, config.clients)]


def _socket_excess(path: Path) -> str | None:
    size = len(str(path).encode(errors="surrogateescape"))
    if size <= SOCKET_PATH_BYTES_MAX:
        return None
    return f"{path} has {size} bytes, a socket's path may have {SOCKET_PATH_BYTES_MAX}"


def _clock_faults(config: Config) -> list[Fault]:
    message = 'events: a job that begins at the end has no such time: set read_from = "beginning"'
    wrong = (one.clock == "events" and one.read_from == "end" for one in config.streams)
    return [Fault(("streams", number, "clock"), message) for number, is_wrong in enumerate(wrong) if is_wrong]


def _metrics_faults(config: Config) -> list[Fault]:
    metrics = config.metrics
    if metrics is None:
        return []
    if (metrics.listen is None) == (metrics.socket is None):
        return [Fault(("metrics",), 'has one of listen = "127.0.0.1:9477" and socket = "PATH"')]
    if metrics.listen == config.listen:
        return [Fault(("metrics", "listen"), f"{metrics.listen} is where other agents connect: choose another port")]
    if metrics.socket is None:
        return []
    if metrics.socket == config.control_socket:
        return [Fault(("metrics", "socket"), f"{metrics.socket} is the control socket: choose another path")]
    excess = _socket_excess(metrics.socket)
    return [] if excess is None else [Fault(("metrics", "socket"), excess)]


def _pointless_choices(config: Config) -> list[Fault]:
    """Faults of archived streams that do not exist. A pattern may be meant for streams added later."""
    names = [stream.name for stream in config.streams]
    return [
        Fault(("archive", "streams", number), f"there is no stream {pattern!r}")
        for number, pattern in enumerate(config.archive.streams if config.archive else ())
        if not is_pattern(pattern) and pattern not in names
    ]


def _twins(layers: Layers) -> list[Fault]:
    """Faults of streams that share a name."""
    faults: list[Fault] = []
    first: dict[str, int] = {}
    streams = layers.document.get("streams")
    for number, stream in enumerate(streams if isinstance(streams, list) else ()):
        name = stream.get("name") if isinstance(stream, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            key = ("streams", number, "name")
            faults.append(
                Fault(key, f"{name[:80]!r} is the name of {layers.told(('streams', first[name]), key)} already")
            )
        first.setdefault(name, number)
    return faults
