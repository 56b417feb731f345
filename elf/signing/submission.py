"""Turns a job's file into the signed bundle that its creator submits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

import query
from agent.control.messages import Analysed
from agent.programs.calls import JobDescription
from agent.runtime.fleet.job_names import stage_app
from agent.runtime.model.bundle import FUNCTIONS_MAX, SOURCE_BYTES_MAX, Contents, Function
from elf.client.errors import QueryRefusedError
from elf.errors import ElfError, UsageError
from elf.program.aggregate_laws import check_aggregate
from elf.program.code import CodeError, about, load_code
from elf.signing.creator import signed_bundle
from elf.signing.element_plans import Fields, completed
from elf.signing.shipped import JOBS, shipped
from elf.terminal.terminal import printable, tell
from overlay import format_id

if TYPE_CHECKING:
    from overlay import Creator, Id

FIRST = "query"
"""Name of the function that a job begins with."""


class JobFileError(ElfError):
    """A job's file cannot be used: one line; `text` is the traceback where its code raised an exception."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason)
        self.text = text


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job's file, and the description of its class."""

    source: bytes
    about: JobDescription


def read_job(path: Path) -> JobFile:
    """Reads and executes a job's file, with the rights of the caller. Raises JobFileError.

    Where there is no such file, the path may be the name of a job that comes with ELF.
    """
    try:
        source = (path if path.exists() else shipped(str(path)) or path).read_bytes()
    except OSError as error:
        raise UsageError(f"{printable(str(path))}: {(error.strerror or str(error)).lower()}{_hint(path)}") from None
    if len(source) > SOURCE_BYTES_MAX:
        raise JobFileError(
            f"{printable(str(path))}: has {len(source):,} bytes, a job's code may have {SOURCE_BYTES_MAX:,}"
        )
    try:
        kind = load_code(source).kind
        described = about(kind)
        for name, aggregate in kind.aggregates.items():
            check_aggregate(name.upper(), aggregate)
    except CodeError as error:
        trace = error.text if error.text != str(error) else ""
        raise JobFileError(f"{printable(str(path))}: {printable(str(error))}", trace) from None
    if taken := sorted(described.aggregates.keys() & {key.split()[0] for key in query.signatures()}):
        raise JobFileError(f"{printable(str(path))}: aggregates: {taken[0]} is a function of ELF QL already")
    if len(described.queries) >= FUNCTIONS_MAX or FIRST in described.queries:
        raise JobFileError(
            f"{printable(str(path))}: queries has at most {FUNCTIONS_MAX - 1} names, none of them {FIRST}"
        )
    return JobFile(source, described)


def _hint(path: Path) -> str:
    """A hint at the shipped jobs for a path that is a plain word."""
    return f"; jobs that come with ELF are {', '.join(JOBS)}" if path.suffix == "" and len(path.parts) == 1 else ""


def job_file(path: Path) -> JobFile:
    """Reads a job's file for a command: the traceback of its code goes to standard error."""
    try:
        return read_job(path)
    except JobFileError as error:
        tell(error.text, end="")
        raise


class Analyser(Protocol):
    """Analyses queries; see `SyncClient.analyse`."""

    def analyse(
        self,
        text: str,
        *,
        mapped: bool = False,
        apps: Mapping[str, str] | None = None,
        types: Mapping[str, Fields] | None = None,
        aggregates: Mapping[str, str] | None = None,
    ) -> Analysed: ...


def contents_of(client: Analyser, job: JobFile, app: str, creator: str) -> dict[str, Contents]:
    """The contents of a creator's job, by name: its stages, each after those that it reads, and the job itself last.

    Raises UsageError, or QueryRefusedError for a query.
    """
    about = job.about
    apps = {stage: f"{stage_app(app, stage)}@{creator}" for stage in about.stages}

    def planned(text: str, types: Mapping[str, Fields] | None) -> dict[str, Any]:
        plan: dict[str, Any] = msgspec.msgpack.decode(client.analyse(text, types=types).plan)
        return plan

    elements = None if about.elements is None else completed(about.elements, planned)
    types = {} if elements is None else {one.name: one.fields for one in elements.types}

    def function(name: str, text: str, *, mapped: bool, aggregates: Mapping[str, str] | None = None) -> Function:
        analysed = client.analyse(text, mapped=mapped, apps=apps, types=types, aggregates=aggregates)
        if analysed.warning:
            tell(f"{name}: {printable(analysed.warning)}")
        return Function(name, msgspec.msgpack.decode(analysed.plan), analysed.query)

    stages: dict[str, Function] = {}
    for stage, text in about.stages.items():
        try:
            stages[stage] = function(FIRST, text, mapped=False)
        except QueryRefusedError as error:
            raise QueryRefusedError(f"stage {stage}: {error}") from None
        if read := _types_read(f"stage {stage}", stages[stage].plan, types):
            plan = query.Plan.from_wire({**stages[stage].plan, "types": read}).to_wire()
            stages[stage] = msgspec.structs.replace(stages[stage], plan=plan)
        if stages[stage].plan.get("window_ms") is None:
            raise UsageError(f"stage {stage}: has no WINDOWING, and goes on as long as its job")
    queries = {FIRST: about.query, **about.queries}
    functions = [function(name, text, mapped=about.maps, aggregates=about.aggregates) for name, text in queries.items()]
    if elements is not None:
        graph = msgspec.to_builtins(elements)
        for one in functions:
            if not _types_read(one.name, one.plan, types):
                raise UsageError(
                    f"{one.name}: reads {one.plan['stream']}; the queries of a job with elements read what these emit"
                    f" ({', '.join(types)}): make it one of its stages"
                )
        functions = [msgspec.structs.replace(one, plan={**one.plan, "elements": graph}) for one in functions]
    ordered = [(stage_app(app, stage), stages[stage]) for stage in _in_order(app, creator, stages)]
    contents = {name: Contents([stage], part_of=app) for name, stage in ordered}
    return contents | {app: Contents(functions, job.source, about.drives)}


def _types_read(what: str, plan: dict[str, Any], types: Mapping[str, Fields]) -> dict[str, Fields]:
    """The types of the job's events that a query reads, with their fields. Raises UsageError where it reads other
    streams too, or lets events travel by key that have travelled."""
    read = query.Plan.from_wire(plan)
    if read.elements is not None and any(query.selects(read.streams_read, name) for name in types):
        raise UsageError(
            f"{what}: reads {read.streams_read}, which elements of the job emit, with KEYED BY or a JOIN of streams: "
            "give elements the key, or elf.join"
        )
    named = () if read.app is not None else (read.stream, *(branch.stream for branch in read.branches))
    patterns = [one for text in named for one in query.patterns(text)]
    others = [one for one in patterns if not any(query.selects(one, name) for name in types)]
    found = {name: fields for name, fields in types.items() if any(query.selects(one, name) for one in patterns)}
    if found and others:
        raise UsageError(
            f"{what}: reads {next(iter(found))}, which elements of the job emit, and {others[0]}, which they do not:"
            " read each in a stage of its own"
        )
    return found


def _in_order(app: str, creator: str, stages: Mapping[str, Function]) -> list[str]:
    """Stages in order, each after those that it reads. Raises UsageError for a circle of stages, or with the job."""
    named = {stage_app(app, stage): stage for stage in stages} | {app: app}
    named |= {f"{name}@{creator}": short for name, short in named.items()}
    graph = {
        stage: [named[read] for read in query.Plan.from_wire(function.plan).apps if read in named]
        for stage, function in stages.items()
    }
    try:
        return [stage for stage in TopologicalSorter(graph | {app: list(stages)}).static_order() if stage != app]
    except CycleError as error:
        circle = ", which reads ".join(reversed(error.args[1]))
        raise UsageError(f"stages: {circle}: what goes round in a job is fed back by multicast") from None


def signed(
    creator: Creator, app: str, contents: Contents, after: tuple[int, bytes] = (0, b""), key: Id | None = None
) -> tuple[str, bytes]:
    """The job's app id in hex, and the encoded bundle. `after`: counter and digest of the preceding mandate. `key`: the
    app id of a job that runs already."""
    app_id, bundle = signed_bundle(creator, app, contents, time.time_ns() // 1_000_000, after, key)
    return format_id(app_id), msgspec.msgpack.encode(bundle)
