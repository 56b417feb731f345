"""Answers statements over files: log files, or the rows of windows, read by a fleet embedded in this process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import query
from elf.errors import ElfError, UsageError
from elf.explain import check_output, explained_query, measured_run, print_explained, print_explanation
from elf.local import LocalOptions, LocalRun, LocalSource, schemas
from elf.options.fleet import tell_interrupted
from elf.output.listing import Cell, Listing
from elf.output.output import result_writer, write_all
from elf.output.view import View, ViewLimits
from elf.statements.fleet_backend import listed_columns
from elf.terminal.terminal import printable, tell

if TYPE_CHECKING:
    from agent import WindowResult

WINDOW_ROWS = "windows"
"""Stream of the rows of windows in a query over them; each row has the bounds of its window too."""
START, END = "window_start", "window_end"
NO_JOBS = "there are no jobs here, only files: elf shell without --local asks a fleet"


class FileBackend:
    """Answers statements over files. Raises UsageError for missing files."""

    def __init__(self, sources: Sequence[LocalSource], options: LocalOptions) -> None:
        self._sources = sources
        self._options = options
        self._schemas = schemas(sources, options)

    def select(self, text: str, view: View, limits: ViewLimits) -> int:  # noqa: ARG002 - files come to an end
        try:
            options = replace(self._options, arrival_ms=time.time_ns() // 1_000_000)
            run = LocalRun(text, self._sources, options)
            writer = result_writer(view.output, run.columns, measures=query.measures(run.plan))
            write_all(run.results(), writer)
        except query.QueryError as error:
            raise UsageError(str(error)) from error
        except KeyboardInterrupt:
            tell_interrupted("interrupted")
            return 130
        for warning in run.warnings:
            tell(printable(warning))
        if run.empty_because:
            tell(run.empty_because)
        return 0

    def explain(self, text: str, output: str) -> None:
        options = self._options
        print_explanation(
            text, once=True, max_groups=options.max_groups, beyond_groups=options.beyond_groups, output=output
        )

    def analyze(self, text: str, output: str, deadline: float) -> None:  # noqa: ARG002 - files come to an end
        check_output(output)
        options = replace(self._options, arrival_ms=time.time_ns() // 1_000_000)
        explained = explained_query(text, once=True, max_groups=options.max_groups, beyond_groups=options.beyond_groups)
        try:
            run = LocalRun(text, self._sources, options)
        except query.QueryError as error:
            raise UsageError(str(error)) from error
        print_explained(explained, output, measured_run(run))

    def latency(self, text: str, output: str) -> None:  # noqa: ARG002 - files have no live jobs
        raise UsageError("EXPLAIN LATENCY is for live jobs: here windows come when all input is read")

    def streams(self) -> Listing:
        rows: list[list[Cell]] = [[source.name, len(source.paths), ", ".join(source.paths)] for source in self._sources]
        return Listing(["STREAM", "FILES", "PATHS"], rows, "no files")

    def jobs(self) -> Listing:
        return Listing(["APP"], [], NO_JOBS)

    def elements(self, app: str) -> Listing:  # noqa: ARG002 - files have no jobs
        return Listing(["APP"], [], NO_JOBS)

    def describe(self, stream: str) -> Listing:
        schema = self._schemas.get(stream)
        if schema is None:
            raise UsageError(f"there is no stream {stream}; there are {', '.join(self._schemas)}")
        return listed_columns(dict(schema.columns), is_open=schema.open)

    def columns(self, stream: str) -> list[str]:
        """The names of the columns of a stream; none if there is no such stream."""
        schema = self._schemas.get(stream)
        return [] if schema is None else list(schema.columns)

    def follow(self, app: str, view: View) -> int:  # noqa: ARG002 - files have no jobs
        raise ElfError(NO_JOBS)

    def stop(self, app: str) -> None:  # noqa: ARG002
        raise ElfError(NO_JOBS)


def answer_over(windows: Sequence[WindowResult], text: str) -> tuple[list[str], list[WindowResult]]:
    """Answers a query over the rows of windows: its columns and results. Tells of what is not as the query has it.

    Raises UsageError for the query.
    """
    with tempfile.TemporaryDirectory(prefix="elf-ask-") as folder:
        path = Path(folder) / "rows.json"
        bounds = [{START: window.window_start, END: window.window_end} for window in windows]
        rows = [row | bound for window, bound in zip(windows, bounds, strict=True) for row in window.rows]
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        has_times = any(bound[START] is not None for bound in bounds)
        options = LocalOptions(
            arrival_ms=time.time_ns() // 1_000_000, source_format="json", time_field=START if has_times else None
        )
        try:
            run = LocalRun(text, [LocalSource(WINDOW_ROWS, (str(path),))], options)
        except query.QueryError as error:
            raise UsageError(str(error)) from error
        results = list(run.results())
        for warning in run.warnings:
            tell(printable(warning))
        return run.columns, results
