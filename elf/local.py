"""Answers one query over files with a whole fleet embedded in this process."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl

import query
from agent import EmbeddedFleet, SpillArea, Submit, WindowResult
from agent.configuration.rules import JOB_MEMORY, memory_bytes
from agent.feeding.stream_schema import schema_of
from agent.feeding.table_reading import read_table, table_schema
from agent.parsing import Format, Parsed, Parser, sniff
from agent.runtime.embedded import ElementsStuckError
from agent.runtime.keyed.element_program import RunHere
from agent.runtime.upstream.tables import FileTable
from agent.sources import Reading, SourceError
from agent.sources import SourceFile as SourceFile
from elf.errors import ElfError, UsageError, not_whole
from overlay import app_id


def read_tables(parsed: query.Query, files: Mapping[str, str]) -> dict[str, FileTable]:
    """The tables that a query joins with, by name. Raises `query.QueryError` for a table without a file, UsageError for
    a file that holds no table.
    """
    found = {}
    for table in query.sources(parsed):
        if not isinstance(table, query.TableRef):
            continue
        if table.name not in files:
            guess = query.nearest(table.name, files)
            hint = f"did you mean {guess}?" if guess else f"name its file: --table {table.name}=FILE"
            raise query.QueryError(f"there is no table {table.name}", parsed.text, table.span, hint=hint)
        try:
            found[table.name] = read_table(files[table.name])
        except SourceError as error:
            raise UsageError(str(error)) from error
    return found


STUCK = "the elements of the job do not go on, though events wait for them"
FILE_BITS = 32
"""Bits for the number of an event in its file."""
KEYED_FILES_MAX = 2_000
LOST = "this is not the whole answer: an agent could not read {:,} parts of it; ask with --agents 1"
WITHIN_IGNORED = "WITHIN is ignored: it is for live jobs, and here windows come when all input is read"
APP = "local"
BLOCK_BYTES = 4 << 20
PARSER_THREADS_MAX = 8
"""Upper bound on threads that read and parse blocks; beyond it the agents are what takes time."""
BLOCKS_AHEAD = 6
"""Blocks that wait for a thread, or for an agent, beside those that threads work on."""
JOB_MEMORY_BYTES = memory_bytes(JOB_MEMORY)
"""Memory of each embedded agent for a job, as `job_memory` of other agents; the rest goes to disk."""
ROOT_BYTES = JOB_MEMORY_BYTES // 4
"""Part of that for groups that are not in order yet: they are put in order once, where there is room for all."""
_KINDS_OF_VALUES = {
    "number": "a number", "integer": "an integer", "string": "a string", "boolean": "true or false",
    "timestamp": "a time",
}  # fmt: skip
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A named stream and the files that hold it; `-` is standard input."""

    name: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """Options of reading, and of distributing input among agents. Times in epoch ms; `arrival_ms` is the time of events
    that carry none.

    `tables`: the files of look-up tables, by name.
    """

    arrival_ms: int
    agents: int = 1
    source_format: str = "auto"
    time_field: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    max_groups: int = query.GROUPS_DEFAULT
    beyond_groups: query.BeyondGroups = "other"


@dataclass(frozen=True, slots=True)
class _Input:
    """One file of one stream, and its format."""

    stream: str
    file: SourceFile
    format: Format


@dataclass(frozen=True, slots=True)
class _AssignedPart:
    """A part of a file assigned to an agent; `parse` reads it, in any thread."""

    agent: int
    stream: str
    file: int
    parse: Callable[[], _ParsedPart]


class _ParsedPart(NamedTuple):
    """The events of a part, block by block, and the seconds that parsing them took."""

    blocks: list[Parsed]
    seconds: float


class LocalRun:
    """A query, checked and ready to run over its sources.

    Raises `query.QueryError` for the query, `UsageError` for sources that are not there. `columns` are the names
    of the result's columns, `warnings` grow while it runs, and so do the seconds spent on parsing and in the agents.
    """

    def __init__(self, text: str, sources: Sequence[LocalSource], options: LocalOptions) -> None:
        parsed = query.parse(text)
        if others := query.apps(parsed):
            hint = 'submit this to a fleet: elf query "..."'
            raise query.QueryError("elf local knows no other jobs", text, others[0].span, hint=hint)
        inputs, catalog = catalog_of(sources, options)
        tables = read_tables(parsed, options.tables)
        schemas = {name: table_schema(table) for name, table in tables.items()}
        plan = query.analyze(
            parsed, catalog, schemas, max_groups=options.max_groups, beyond_groups=options.beyond_groups
        )
        self._begin(plan, inputs, catalog, tables, options)

    def _begin(
        self,
        plan: query.Plan,
        inputs: list[_Input],
        catalog: dict[str, query.Schema],
        tables: dict[str, FileTable],
        options: LocalOptions,
    ) -> None:
        self.warnings: list[str] = [] if plan.within is None else [WITHIN_IGNORED]
        self._options = options
        self._tables = tables
        self.plan = plan = plan.without_within()
        self.columns = query.output_names(plan)
        self._inputs = [i for i in inputs if query.selects(plan.streams_read, i.stream)]
        if plan.elements is not None and len(self._inputs) > KEYED_FILES_MAX:
            raise UsageError(
                f"{len(self._inputs):,} files are too many for keyed elements: at most {KEYED_FILES_MAX:,}"
            )
        self._known = _known_types(catalog, plan.streams_read)
        computed = bool(plan.branches) or plan.elements is not None
        self._silent = set() if computed else {column.name for column in plan.columns}
        self._read_events = False
        self._broken: SourceError | None = None
        self._windows = 0
        self.parsing_s = 0.0
        self.inserting_s = 0.0
        self._disk_warnings: set[str] = set()

    _code: Callable[[], RunHere] | None = None

    def results(self, progress: Progress | None = None) -> Iterator[WindowResult]:
        """Reads everything, then yields the windows in order; `progress` gets bytes read and bytes in all.

        A file that breaks off counts as far as it could be read; ElfError reports it at the end. Where too many groups
        are an error, ElfError comes after the last window before it.
        """
        with self._spill_area() as area:
            yield from self._results(area, progress)

    @contextmanager
    def _spill_area(self) -> Iterator[SpillArea | None]:
        """A directory to spill to; None on a machine that takes no files, where everything stays in memory."""
        try:
            directory = TemporaryDirectory(prefix="elf-local-")
        except OSError:
            yield None
            return
        with directory as path:
            yield SpillArea(JOB_MEMORY_BYTES, Path(path), self._warn_of_disk, root_bytes=ROOT_BYTES)

    def _warn_of_disk(self, what: str, why: str) -> None:
        if what not in self._disk_warnings:
            self._disk_warnings.add(what)
            self.warnings.append(f"{what} ({why})")

    def _warn_of_null_keys(self, counts: Mapping[str, int]) -> None:
        if not self._windows:
            self.warnings += [
                f"{element} does not get {count:,} events: there is NULL in their key"
                for element, count in counts.items()
                if count
            ]

    def _results(self, area: SpillArea | None, progress: Progress | None) -> Iterator[WindowResult]:
        options = self._options
        fleet = EmbeddedFleet(
            options.agents, sorted({i.stream for i in self._inputs}), random.Random(0), area, self._tables, self._code
        )
        job = Submit(
            app_id=app_id(APP, b""),
            name=APP,
            stream=self.plan.stream,
            plan=self.plan.to_wire(),
            since_ms=options.since_ms,
            until_ms=options.until_ms,
        )
        self.master = fleet.submit(job)
        self._feed(fleet, progress)
        self._warn_of_silent_columns()
        reasons: dict[str, str] = {}
        try:
            for result in fleet.end_of_input():
                self._warn_of_null_keys(fleet.null_keys)
                self._windows += 1
                reasons |= result.reasons
                yield result
        except ElementsStuckError:
            raise ElfError(STUCK) from None
        if self.master.failure is not None:
            raise ElfError(self.master.failure)
        if reasons:
            raise ElfError(f"{not_whole(reasons)}; or with --agents 1")
        if fleet.lost_runs:
            raise ElfError(LOST.format(fleet.lost_runs))
        if self._broken is not None:
            raise ElfError(str(self._broken))

    @property
    def empty_because(self) -> str | None:
        """Reason why a finished run had no window, None if it had one."""
        if self._windows:
            return None
        bounded = (self._options.since_ms, self._options.until_ms) != (None, None)
        nothing = "no events between --since and --until" if bounded else "no events"
        return f"no window: {nothing}, {self.master.totals.malformed:,} malformed lines"

    @property
    def bytes_read(self) -> int:
        """Bytes read of all files, compressed ones as they are."""
        return sum(i.file.progress.bytes_read for i in self._inputs)

    def _feed(self, fleet: EmbeddedFleet, progress: Progress | None) -> None:
        """Parses in threads, since decompression and columnar work can overlap; inserts events one block after the
        other.
        """
        total = sum(i.file.bytes_total() or 0 for i in self._inputs)
        read = [0] * len(self._inputs)
        threads = parser_threads()
        with ThreadPoolExecutor(threads) as pool:
            for assigned, part in _ahead(pool, threads + BLOCKS_AHEAD, self._assigned_parts(fleet)):
                self.parsing_s += part.seconds
                begin = time.perf_counter()
                for parsed in part.blocks:
                    read[assigned.file] += sum(frame.height for frame in parsed.frames)
                    place = assigned.file << FILE_BITS | read[assigned.file]
                    fleet.insert(assigned.agent, assigned.stream, parsed, place)
                    self._notice_columns(parsed)
                self.inserting_s += time.perf_counter() - begin
                if progress:
                    progress(self.bytes_read, total)

    def _assigned_parts(self, fleet: EmbeddedFleet) -> Iterator[_AssignedPart]:
        """Yields parts of files with their agents: whole files where there are at least as many as agents, else parts
        in turn.
        """
        by_file = len(self._inputs) >= len(fleet)
        parts_assigned = 0
        for index, source in enumerate(self._inputs):
            decode = fleet.parser(source.stream, source.format)
            parts = source.file.readings(block_bytes=BLOCK_BYTES, csv_quotes=source.format.quotes_span_lines)
            for part in self._unbroken(parts):
                agent = (index if by_file else parts_assigned) % len(fleet)
                yield _AssignedPart(agent, source.stream, index, partial(self._parse, decode, part))
                parts_assigned += 1

    def _unbroken(self, parts: Iterator[Reading]) -> Iterator[Reading]:
        try:
            yield from parts
        except SourceError as error:
            self._broken = self._broken or error

    def _parse(self, decode: Parser, read: Reading) -> _ParsedPart:
        try:
            blocks = read()
        except SourceError as error:
            self._broken = self._broken or error
            blocks = []
        begin = time.perf_counter()
        events = [(decode.parse(block, self._options.arrival_ms), block.overlong) for block in blocks]
        seconds = time.perf_counter() - begin
        return _ParsedPart([replace(one, malformed=one.malformed + overlong) for one, overlong in events], seconds)

    def _notice_columns(self, parsed: Parsed) -> None:
        passed_over = parsed.passed_over
        self._read_events |= bool(parsed.frames) or passed_over is not None
        if passed_over is not None:
            self._silent -= passed_over.valued
        for name in list(self._silent):
            if any(_has_values(frame, name) for frame in parsed.frames):
                self._silent.discard(name)

    def _warn_of_silent_columns(self) -> None:
        silent = [column for column in self.plan.columns if column.name in self._silent and self._read_events]
        for column in sorted(silent, key=lambda column: column.name):
            name = ".".join(column.path)
            known = self._known.get(name)
            if known is None:
                self.warnings.append(f"no event has a value for column {name}: it is NULL throughout")
            elif column.type not in (known, "string" if known == "text" else "any"):
                value = _KINDS_OF_VALUES[column.type]
                self.warnings.append(f"no event has {value} in column {name}, which the query needs: it is NULL")


def catalog_of(sources: Sequence[LocalSource], options: LocalOptions) -> tuple[list[_Input], dict[str, query.Schema]]:
    """The files of some streams, and the columns of each stream. Raises UsageError for missing files."""
    inputs = _open(sources, options)
    return inputs, _catalog(sources, inputs)


def schemas(sources: Sequence[LocalSource], options: LocalOptions) -> dict[str, query.Schema]:
    """The columns of each stream, as its files' first lines show. Raises UsageError for missing files."""
    return _catalog(sources, _open(sources, options))


def _open(sources: Sequence[LocalSource], options: LocalOptions) -> list[_Input]:
    try:
        inputs = [_sniff(source.name, path, options) for source in sources for path in source.paths]
    except SourceError as error:
        raise UsageError(str(error)) from error
    time_field = options.time_field
    if time_field not in (None, "time") and all(i.format.traits.fixed_time_field for i in inputs):
        raise UsageError(f"--time-field {time_field}: the time of combined logs is always in the field time")
    return inputs


def _sniff(stream: str, path: str, options: LocalOptions) -> _Input:
    file = SourceFile(path, stdin=sys.stdin.buffer if sys.stdin else None)
    return _Input(stream, file, sniff(file.head(), path, options.source_format, options.time_field))


def _catalog(sources: Sequence[LocalSource], inputs: Sequence[_Input]) -> dict[str, query.Schema]:
    """The schema of each stream: the union of its files'."""
    return {source.name: schema_of([i.format for i in inputs if i.stream == source.name]) for source in sources}


def parser_threads() -> int:
    """The number of threads that read and parse: one for each core this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, PARSER_THREADS_MAX)


def _ahead(
    pool: Executor, ahead: int, assigned: Iterable[_AssignedPart]
) -> Iterator[tuple[_AssignedPart, _ParsedPart]]:
    """Parses so many parts ahead of the consumer, who gets them in order."""
    pending: deque[tuple[_AssignedPart, Future[_ParsedPart]]] = deque()
    for part in assigned:
        pending.append((part, pool.submit(part.parse)))
        if len(pending) > ahead:
            first, future = pending.popleft()
            yield first, future.result()
    for first, future in pending:
        yield first, future.result()


def _known_types(catalog: dict[str, query.Schema], stream: str) -> dict[str, str]:
    """Columns seen in any of the streams a query selects, and their types."""
    schemas = [schema for name, schema in catalog.items() if query.selects(stream, name)]
    return {name: kind for schema in schemas for name, kind in schema.columns.items()}


def _has_values(frame: pl.DataFrame, name: str) -> bool:
    return name in frame.columns and frame[name].null_count() < frame.height
