"""Reads and checks `agent.toml`.

All faults are found in one go, each reported with its line and key, as in
`agent.toml:12: streams[0].pathz: unknown key (did you mean paths?)`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from agent.access.rules import AccessRule
from agent.configuration.access import (
    AccessSections,
    ClientsConfig,
    ClientsSection,
    access_faults,
    clients_faults,
    resolved_access,
    resolved_clients,
)
from agent.configuration.faults import Fault, line_of, place, struct_faults
from agent.configuration.rules import (
    AUTO,
    COPIES,
    COPIES_MAX,
    DISK_FREE_MIN,
    EVERY_INTERFACE,
    HEAL_RETENTION,
    JOB_MEMORY,
    MAX_SKEW,
    PROGRAM_MEMORY,
    SEALED_DISK,
    SPILL_DISK,
    check_address,
    check_choice,
    check_days,
    check_format,
    check_name,
    check_reachable,
    check_source,
    check_stream,
    check_table,
    check_table_format,
    heal_retention_ms,
    is_pattern,
    max_skew_ms,
    memory_bytes,
    sealed_disk_bytes,
)
from agent.configuration.toml_lines import KeyPath, key_lines
from agent.sources.options import RULE, PathText
from agent.sources.reader import EventSource, ReadFrom
from agent.sources.registry import DEFAULT_SOURCE, SOURCES
from overlay import format_address, parse_address

CONFIG_BYTES_MAX = 1 << 20
CONTROL_SOCKET = "control.sock"
SOCKET_PATH_BYTES_MAX = 107
"""Upper bound on the path in the kernel's address of a Unix socket."""
_AT = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)")

Seed = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_reachable})]
Listen = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_address})]
FleetName = Annotated[str, msgspec.Meta(min_length=1, max_length=63, extra={RULE: check_name})]
AgentName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, extra={RULE: check_name})]
StreamName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_stream})]
TableName = Annotated[str, msgspec.Meta(min_length=1, max_length=200, extra={RULE: check_table})]
Memory = Annotated[str, msgspec.Meta(max_length=64, extra={RULE: memory_bytes})]
Rack = Annotated[str, msgspec.Meta(min_length=1, max_length=64, extra={RULE: check_name})]
Copies = Annotated[int, msgspec.Meta(ge=0, le=COPIES_MAX)]
SealedDisk = Annotated[str, msgspec.Meta(max_length=64, extra={RULE: sealed_disk_bytes})]
Skew = Annotated[str, msgspec.Meta(max_length=64, extra={RULE: max_skew_ms})]
HealRetention = Annotated[str, msgspec.Meta(max_length=64, extra={RULE: heal_retention_ms})]
Days = Annotated[int | float, msgspec.Meta(extra={RULE: check_days})]
Chosen = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_choice})]
SourceName = Annotated[str, msgspec.Meta(extra={RULE: check_source})]
FormatName = Annotated[str, msgspec.Meta(extra={RULE: check_format})]
TableFormatName = Annotated[str, msgspec.Meta(extra={RULE: check_table_format})]
FieldName = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class _Stream(msgspec.Struct):
    """The keys of every stream. The keys of its source stand beside them; the registry of sources lists those."""

    name: StreamName
    source: SourceName = DEFAULT_SOURCE
    format: FormatName = AUTO
    time_field: FieldName | None = None
    read_from: ReadFrom = "end"


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    file: PathText
    format: TableFormatName = AUTO


class _Identity(msgspec.Struct, forbid_unknown_fields=True):
    ca: PathText
    certificate: PathText
    key: PathText
    key_password_file: PathText | None = None
    crl: PathText | None = None


class _Archive(msgspec.Struct, forbid_unknown_fields=True):
    directory: PathText = "archive"
    keep_days: Days = 30
    disk_free_min: Memory = DISK_FREE_MIN
    streams: Annotated[list[Chosen], msgspec.Meta(min_length=1, max_length=256)] = msgspec.field(
        default_factory=lambda: ["*"]
    )


class _Metrics(msgspec.Struct, forbid_unknown_fields=True):
    listen: Listen | None = None
    socket: PathText | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """The file as it is written."""

    fleet: FleetName
    name: AgentName
    listen: Listen
    data_directory: PathText
    identity: _Identity
    advertise: Seed | None = None
    seeds: Annotated[list[Seed], msgspec.Meta(max_length=64)] = []
    control_socket: PathText | None = None
    job_memory: Memory = JOB_MEMORY
    spill_disk: Memory = SPILL_DISK
    sealed_disk: SealedDisk = SEALED_DISK
    program_memory: Memory = PROGRAM_MEMORY
    max_skew: Skew = MAX_SKEW
    heal_retention: HealRetention = HEAL_RETENTION
    copies: Copies = COPIES
    rack: Rack | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    streams: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=256)] = []
    tables: Annotated[dict[TableName, _Table], msgspec.Meta(max_length=64)] = {}
    archive: _Archive | None = None
    access: AccessSections = []
    clients: ClientsSection | None = None
    metrics: _Metrics | None = None


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A stream of this agent: its source, and how its lines are read."""

    name: str
    source: EventSource
    format: str
    time_field: str | None
    read_from: ReadFrom


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
    crl: Path | None
    """File in which this agent is given lists of revoked certificates, if any."""


@dataclass(frozen=True, slots=True)
class Config:
    """The contents of `agent.toml`; paths are absolute. `lines` has the lines of keys, for faults found later."""

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
    lines: Mapping[KeyPath, int]

    def place(self, *key: str | int) -> str:
        """The position of a key, with which faults begin: `agent.toml:12: identity.key`."""
        return place(str(self.path), key, self.lines)


class ConfigError(Exception):
    """A file that cannot be used; `lines` are its faults, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def load_config(path: Path) -> Config:
    """Reads and checks a file. Raises ConfigError with every fault that was found."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_fault(path, text, str(error))]) from None
    except RecursionError:
        raise ConfigError([f"{path}: is nested too deeply"]) from None
    lines = key_lines(text, document)
    faults = [*struct_faults(document, _File), *_stream_faults(document), *_twins(document), *access_faults(document)]
    if not faults:
        file = msgspec.convert(document, _File)
        config = _resolved(path, file, lines)
        faults = _faults_together(file, config)
    if faults:
        faults.sort(key=lambda fault: line_of(fault.key, lines) or 0)
        raise ConfigError([f"{place(str(path), fault.key, lines)}: {fault.message}" for fault in faults])
    return config


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError([f"{path}: {reason}"]) from None
    if len(content) > CONFIG_BYTES_MAX:
        raise ConfigError([f"{path}: is larger than {CONFIG_BYTES_MAX:,} bytes: that is no configuration"])
    try:
        return content.decode("utf-8-sig")  # some editors put a byte order mark before the text
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{path}:{line}: is not UTF-8 text"]) from None


def _syntax_fault(path: Path, text: str, message: str) -> str:
    match = _AT.fullmatch(message)
    if match is None:
        return f"{path}: {message}"
    what, line, column = match.groups()
    if line is None:
        return f"{path}:{text.count(chr(10)) + 1}: {what.lower()}, at the end of the file"
    return f"{path}:{line}: {what[0].lower()}{what[1:]}, at column {column}"


def _resolved(path: Path, file: _File, lines: Mapping[KeyPath, int]) -> Config:
    base = path.absolute().parent
    data_directory = base / file.data_directory
    socket = base / file.control_socket if file.control_socket else data_directory / CONTROL_SOCKET
    return Config(
        path=path,
        fleet=file.fleet,
        name=file.name,
        listen=_spelled_one_way(file.listen),
        advertise=None if file.advertise is None else _spelled_one_way(file.advertise),
        seeds=tuple(dict.fromkeys(map(_spelled_one_way, file.seeds))),
        data_directory=data_directory,
        control_socket=socket,
        job_memory_bytes=memory_bytes(file.job_memory),
        spill_disk_bytes=memory_bytes(file.spill_disk),
        sealed_disk_bytes=sealed_disk_bytes(file.sealed_disk),
        program_memory_bytes=memory_bytes(file.program_memory),
        max_skew_ms=max_skew_ms(file.max_skew),
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
        lines=lines,
    )


def _resolved_archive(base: Path, file: _Archive) -> ArchiveConfig:
    size = memory_bytes(file.disk_free_min)
    return ArchiveConfig(base / file.directory, float(file.keep_days), size, tuple(file.streams))


def _resolved_metrics(base: Path, file: _Metrics) -> MetricsConfig:
    listen = None if file.listen is None else _spelled_one_way(file.listen)
    return MetricsConfig(listen, None if file.socket is None else base / file.socket)


def _resolved_identity(base: Path, file: _Identity) -> IdentityConfig:
    password, crl = (None if path is None else base / path for path in (file.key_password_file, file.crl))
    return IdentityConfig(base / file.ca, base / file.certificate, base / file.key, password, crl)


def _spelled_one_way(address: str) -> str:
    """Normalises an address, since addresses are compared as text."""
    return format_address(*parse_address(address))


def _resolved_stream(base: Path, table: Mapping[str, Any]) -> StreamConfig:
    stream = msgspec.convert(table, _Stream)
    kind = SOURCES[stream.source]
    keys = {field.encode_name for field in msgspec.structs.fields(kind.options)}
    options = msgspec.convert({key: value for key, value in table.items() if key in keys}, kind.options)
    return StreamConfig(stream.name, kind.build(options, base), stream.format, stream.time_field, stream.read_from)


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
            faults += struct_faults(stream, _Stream, kind.options, path=("streams", number))
        else:  # the other keys belong to a source that is not known
            own = {field.encode_name for field in msgspec.structs.fields(_Stream)}
            known = {key: value for key, value in stream.items() if key in own}
            faults += struct_faults(known, _Stream, path=("streams", number))
    return faults


def _faults_together(file: _File, config: Config) -> list[Fault]:
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
    own = (*_metrics_faults(config), *_pointless_choices(config))
    return [*faults, *own, *clients_faults(config.listen, config.clients)]


def _socket_excess(path: Path) -> str | None:
    size = len(str(path).encode(errors="surrogateescape"))
    if size <= SOCKET_PATH_BYTES_MAX:
        return None
    return f"{path} has {size} bytes, a socket's path may have {SOCKET_PATH_BYTES_MAX}"


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


def _twins(document: Mapping[str, Any]) -> list[Fault]:
    """Faults of streams that share a name."""
    faults: list[Fault] = []
    first: dict[str, int] = {}
    streams = document.get("streams")
    for number, stream in enumerate(streams if isinstance(streams, list) else ()):
        name = stream.get("name") if isinstance(stream, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            key = ("streams", number, "name")
            faults.append(Fault(key, f"{name[:80]!r} is the name of streams[{first[name]}] already"))
        first.setdefault(name, number)
    return faults
