"""`elf local`: one query over files, without a fleet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import click

import cbt
import query
from agent.control.messages import BeyondGroups
from agent.parsing import LINE_FORMATS, native_status
from agent.sources import STANDARD_INPUT
from elf import local as embedded
from elf.errors import UsageError
from elf.options.groups import beyond_groups_option, max_groups_option
from elf.options.tables import named_files, pair_of, tables_option
from elf.options.times import between
from elf.output.output import result_writer, write_all
from elf.output.view import View, ViewLimits
from elf.statements.statements import ExplainStatement, LatencyStatement, read_statement
from elf.terminal.terminal import printable, tell

AGENTS_MAX = 1024
DEFAULT_STREAM = "logs"
EXAMPLES = """\b
Examples:
  elf local "SELECT path, COUNT(*) FROM logs GROUP BY path SORT BY COUNT(*) DESC LIMIT 10" access.log
  elf local "SELECT status, COUNT(*), AVG(body_bytes_sent) FROM logs GROUP BY status" /var/log/nginx/access.log*
  zcat events.json.gz | elf local "SELECT type, COUNT(*) FROM logs GROUP BY type WINDOWING 10 MINUTES" -
  elf local --source web=a.log --source web=b.log "SELECT COUNT(*) FROM web" --output json
  elf local --job ctr --source serves=serves.json --source clicks=clicks.json
"""


@click.command(epilog=EXAMPLES, short_help="Answer a query over log files, here and now.")
@click.argument("query_text", metavar="QUERY", required=False)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path())
@click.option(
    "--source", "named", metavar="NAME=PATH", multiple=True,
    help="A file of the stream NAME; may be repeated. Plain FILEs are the stream `logs`.",
)  # fmt: skip
@click.option("--job", "job_path", metavar="FILE", type=click.Path(path_type=Path),
              help="Run a job's file with keyed elements instead of a QUERY, or one that comes with ELF, by its name. "
              "Its code runs with your rights.")  # fmt: skip
@click.option("--stage", metavar="NAME", help="With --job: show the results of this stage of it, not of its query.")
@tables_option
@click.option("--agents", type=click.IntRange(1, AGENTS_MAX), default=1, show_default=True,
              help="Number of agents to embed; files, or blocks of them, are distributed among them.")  # fmt: skip
@click.option("--source-format", type=click.Choice(["auto", *LINE_FORMATS]), default="auto",
              show_default=True, help="How lines are read; auto looks at each file's beginning.")  # fmt: skip
@click.option("--time-field", metavar="FIELD",
              help="The field with the event's time; else the first of timestamp, @timestamp, time, ts, "
              "created_at that is there, else the time of reading.")  # fmt: skip
@click.option("--since", metavar="TIME", help="Only events from this time on, e.g. 2015-05-17T10:00:00Z.")
@click.option("--until", metavar="TIME", help="Only events before this time.")
@max_groups_option
@beyond_groups_option
@click.option("--output", type=click.Choice(["table", "json", "csv", "plot"]), default="table", show_default=True,
              help="Tables for people, JSON lines with completeness for programs, CSV of the rows, "
              "a chart of the first aggregate.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Say on stderr whether native code is used, and why not.")
def local(
    query_text: str | None,
    files: tuple[str, ...],
    named: tuple[str, ...],
    job_path: Path | None,
    stage: str | None,
    tables: tuple[str, ...],
    agents: int,
    source_format: str,
    time_field: str | None,
    since: str | None,
    until: str | None,
    max_groups: int,
    beyond_groups: BeyondGroups,
    output: str,
    verbose: bool,
) -> None:
    """Answer QUERY, or run a job, over FILEs with a whole fleet embedded in this process.

    FILE may be `-` for standard input; .gz and .zst files are read as they are. Formats: JSON lines, nginx's and
    Apache's combined and common logs, CSV and TSV with a header. Input is bounded: windows close when it ends.
    """
    if verbose:
        tell(f"elf local: lines are parsed {native_status()}; trees are kept {cbt.tree_status()}")
    since_ms, until_ms = between(("--since", "--until"), since, until)
    options = embedded.LocalOptions(
        arrival_ms=time.time_ns() // 1_000_000,
        agents=agents,
        source_format=source_format,
        time_field=time_field,
        since_ms=since_ms,
        until_ms=until_ms,
        tables=named_files(tables),
        max_groups=max_groups,
        beyond_groups=beyond_groups,
    )
    _check_choice(query_text, job_path, stage)
    if job_path is not None:  # every argument is a file
        files = files if query_text is None else (query_text, *files)
    elif isinstance(read_statement(query_text or ""), ExplainStatement | LatencyStatement):
        _explain(query_text or "", _sources(files, named), options, output)
        return
    try:
        if job_path is None:
            run = embedded.LocalRun(query_text or "", _sources(files, named), options)
        else:
            run = _run_of_job(job_path, _sources(files, named), options, stage)
    except query.QueryError as error:
        raise UsageError(str(error)) from error
    writer = result_writer(output, run.columns, measures=query.measures(run.plan))
    with _progress() as progress:
        results = run.results(progress)
        first = next(results, None)
    for warning in run.warnings:
        tell(f"elf local: {printable(warning)}")
    write_all(results if first is None else chain([first], results), writer)
    if run.empty_because:
        tell(f"elf local: {run.empty_because}")


def _explain(text: str, sources: list[embedded.LocalSource], options: embedded.LocalOptions, output: str) -> None:
    from elf.statements.backend import run_statement
    from elf.statements.file_backend import FileBackend

    run_statement(text, FileBackend(sources, options), View(output), ViewLimits())


def _run_of_job(
    path: Path, sources: list[embedded.LocalSource], options: embedded.LocalOptions, stage: str | None
) -> embedded.LocalRun:
    """Loads what signs jobs and runs their code first: a tenth of what a query would load."""
    from elf.local_job import LocalJobRun
    from elf.signing.submission import job_file

    return LocalJobRun(job_file(path), sources, options, stage)


def _check_choice(query_text: str | None, job_path: Path | None, stage: str | None) -> None:
    if job_path is None and query_text is None:
        raise UsageError("neither a QUERY nor --job FILE: see elf local --help")
    if job_path is None and stage is not None:
        raise UsageError(f"--stage {printable(stage)}: a stage is one of a job: name its file with --job")


def _sources(files: tuple[str, ...], named: tuple[str, ...]) -> list[embedded.LocalSource]:
    by_name: dict[str, list[str]] = {DEFAULT_STREAM: list(files)} if files else {}
    for pair in named:
        name, path = pair_of("--source", "NAME=PATH", pair)
        by_name.setdefault(name, []).append(path)
    if not by_name:
        raise UsageError("no input: name one or more FILEs, `-` for standard input, or --source NAME=PATH")
    if sum(paths.count(STANDARD_INPUT) for paths in by_name.values()) > 1:
        raise UsageError("standard input can be read only once")
    return [embedded.LocalSource(name, tuple(paths)) for name, paths in by_name.items()]


@contextmanager
def _progress() -> Iterator[embedded.Progress | None]:
    """Shows a bar of the bytes read on stderr while the block runs, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
