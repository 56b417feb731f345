"""The keys of `agent.toml`, with their types, defaults and meanings: what `elf config schema` prints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from agent.configuration.access import AccessSections, ClientsSection
from agent.configuration.rules import (
    AUTO,
    COPIES,
    COPIES_MAX,
    DISK_FREE_MIN,
    ELEMENTS_MEMORY,
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
    max_skew_ms,
    memory_bytes,
    sealed_disk_bytes,
    seed_entry,
    service_address,
)
from agent.sources.options import RULE, PathText
from agent.sources.reader import ReadFrom, StreamClock
from agent.sources.registry import DEFAULT_SOURCE

Seed = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_reachable})]
SeedEntry = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: seed_entry})]
Listen = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: check_address})]
Service = Annotated[str, msgspec.Meta(min_length=1, max_length=255, extra={RULE: service_address})]
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
LogLevel = Literal["debug", "info", "warning", "error"]


def _says(meaning: str) -> msgspec.Meta:
    """The meaning of a key, as `elf config schema` and the documentation tell it."""
    return msgspec.Meta(description=meaning)


class StreamKeys(msgspec.Struct):
    """The keys of every stream. The keys of its source stand beside them; the registry of sources lists those."""

    name: Annotated[
        StreamName,
        _says(
            "the name that queries give after FROM; the same on all agents that have such logs. No `*`, `?` or commas"
        ),
    ]
    source: Annotated[
        SourceName,
        _says(
            "where the lines come from; `file` is the only source so far. Other keys of a stream depend on its source"
        ),
    ] = DEFAULT_SOURCE
    format: Annotated[
        FormatName, _says("`json`, `combined`, `csv` or `tsv`; `auto` looks at each file's beginning")
    ] = AUTO
    time_field: Annotated[FieldName | None, _says("the field with an event's time; without it, it is looked for")] = (
        None
    )
    read_from: Annotated[ReadFrom, _says("where live jobs begin to read the files that are there")] = "end"
    clock: Annotated[
        StreamClock,
        _says(
            "the time of live jobs where nothing more is to be read: the `wall` clock's, or still that of the newest of"
            ' the `events`, for logs of the past that are written or copied in; needs `read_from = "beginning"`'
        ),
    ] = "wall"


class TableKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a look-up table."""

    file: Annotated[PathText, _says("a file of rows that queries join with: JSON lines, CSV or TSV, at most 8 MiB")]
    format: Annotated[TableFormatName, _says("`json`, `csv` or `tsv`; `auto` looks at its beginning")] = AUTO


class IdentityKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The files of the agent's identity."""

    ca: Annotated[PathText, _says("the authority's certificate (PEM)")]
    certificate: Annotated[PathText, _says("this agent's certificate")]
    key: Annotated[PathText, _says("its key")]
    key_password_file: Annotated[
        PathText | None, _says("a file whose first line is the password of the key, if it has one")
    ] = None
    authority: Annotated[
        Service | None,
        _says(
            "where `elf ca serve` of the authority is reached, to renew the certificate when a third of its time is"
            " left; without it, nothing is renewed"
        ),
    ] = None
    crl: Annotated[
        PathText | None, _says("where this agent is given lists of revoked certificates (`crl.pem` of the authority)")
    ] = None


class ArchiveKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of the archive."""

    directory: Annotated[
        PathText, _says("where the archive is, made if need be; without a section `[archive]` there is none")
    ] = "archive"
    keep_days: Annotated[Days, _says("for how long archived rows are kept, from when they were written")] = 30
    disk_free_min: Annotated[Memory, _says("while its disk has less left than that, nothing is archived")] = (
        DISK_FREE_MIN
    )
    streams: Annotated[
        list[Chosen],
        msgspec.Meta(min_length=1, max_length=256),
        _says("which streams are archived: names, or patterns with `*` and `?`"),
    ] = msgspec.field(default_factory=lambda: ["*"])


class MetricsKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The place at which metrics are served."""

    listen: Annotated[
        Listen | None,
        _says("the address at which Prometheus reads metrics; without a section `[metrics]` there is none"),
    ] = None
    socket: Annotated[PathText | None, _says("a Unix socket for them instead; the section has one of the two")] = None


class ElementsKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The share of this agent in the keyed elements of jobs."""

    cores: Annotated[
        float,
        msgspec.Meta(ge=0.05, le=1024),
        _says("processors that the program of a job with keyed elements may keep busy; past it, its events wait"),
    ] = 1.0
    memory: Annotated[
        Memory, _says("memory for the elements of one job, and for its program; past it elements are evicted")
    ] = ELEMENTS_MEMORY
    weight: Annotated[
        float,
        msgspec.Meta(ge=0, le=1000),
        _says("the share of elements that this agent hosts, beside other agents'; 0: none, it is a standby"),
    ] = 1.0


class ConfigDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The configuration as it is written."""

    fleet: Annotated[FleetName, _says("the fleet's name, as in the certificates")]
    name: Annotated[AgentName, _says("this agent's name, as in its certificate; results name agents that are missing")]
    listen: Annotated[Listen, _says("where other agents connect; IPv6 as `[::1]:7700`")]
    data_directory: Annotated[
        PathText, _says("a folder of the agent's own, created if missing, for all that it keeps across its starts")
    ]
    identity: IdentityKeys
    advertise: Annotated[
        Seed | None,
        _says("the address under which others reach this agent, if that is not `listen`; needed with `0.0.0.0`"),
    ] = None
    seeds: Annotated[
        list[SeedEntry],
        msgspec.Meta(max_length=64),
        _says(
            "agents that are usually there, at most 64, the same on all agents: addresses, `dns:NAME:PORT` for all"
            " addresses of a name, `srv:_elf._tcp.NAME` for an SRV record, `file:PATH` for a file of addresses"
        ),
    ] = []
    control_socket: Annotated[
        PathText | None,
        _says(
            "the socket for clients, at most 107 bytes long; without it, `control.sock` in `data_directory`. Clients"
            " try `/run/elf/control.sock` by default"
        ),
    ] = None
    job_memory: Annotated[
        Memory, _says("memory for the state of one job, at least 1 MiB; the rest is in files in `spill`")
    ] = JOB_MEMORY
    spill_disk: Annotated[
        Memory,
        _says(
            "disk space for these files, of all jobs together, at least 1 MiB; past it, state stays in memory, as on a"
            " full disk"
        ),
    ] = SPILL_DISK
    sealed_disk: Annotated[
        SealedDisk,
        _says(
            "disk space for panes that are sealed and not published, of all jobs together, at least 1 MiB; past it they"
            " stay in memory, as on a full disk. `none`: panes are not on disk before they are sent"
        ),
    ] = SEALED_DISK
    program_memory: Annotated[
        Memory, _says("memory of all programs together; where they use more, the largest ends")
    ] = PROGRAM_MEMORY
    max_skew: Annotated[
        Skew, _says("how far an event may be ahead of the wall clock and still close windows, at most `60 s`")
    ] = MAX_SKEW
    due_looks: Annotated[
        bool,
        _says(
            "whether a stream is looked at when a window is due as well, and not only every 0.1 s: results come sooner"
        ),
    ] = True
    heal_retention: Annotated[
        HealRetention,
        _says(
            "how long this agent keeps sealed panes that were published without somebody, for windows that are"
            " corrected (EMIT CHANGES), in at most 64 MiB for each job; at most `3600 s`, `0 s` for never"
        ),
    ] = HEAL_RETENTION
    copies: Annotated[
        Copies,
        _says(
            "how many other agents hold a copy of each pane that this agent has sealed, until it is published; at most"
            " 4, 0 for none"
        ),
    ] = COPIES
    rack: Annotated[
        Rack | None,
        _says(
            "the rack of this server, at most 64 letters, digits, dots, dashes and underscores: copies go to agents of"
            " other racks, where they say theirs"
        ),
    ] = None
    log_level: Annotated[LogLevel, _says("the least level that is logged")] = "info"
    streams: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=256)] = []
    tables: Annotated[dict[TableName, TableKeys], msgspec.Meta(max_length=64)] = {}
    archive: ArchiveKeys | None = None
    access: AccessSections = []
    clients: ClientsSection | None = None
    metrics: MetricsKeys | None = None
    elements: ElementsKeys = msgspec.field(default_factory=ElementsKeys)
