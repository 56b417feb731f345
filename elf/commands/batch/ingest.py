"""`elf batch ingest`."""

from __future__ import annotations

import click
import msgspec

from agent.parsing import LINE_FORMATS
from elf.commands.batch.options import master_option
from elf.errors import ElfError
from elf.options.fleet import output_option
from elf.terminal.terminal import printable

EXAMPLES = """\b
Examples:
  elf batch ingest --archive shop-archive --stream web '/var/log/nginx/access.log*'
  elf batch ingest --archive shop-archive --stream web --agent web-1 old/access.json.zst
"""
AGENT = "bulk"


class IngestSummary(msgspec.Struct, frozen=True):
    """Result of a load, as `--output json` prints it."""

    files: int
    present: int
    segments: int
    rows: int
    events: int
    malformed: int
    bytes: int
    faults: list[str]


@click.command(epilog=EXAMPLES, short_help="Load existing logs into an archive.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--archive", metavar="URI", required=True, help="The agent's archive, or the directory of archives it is in."
)
@click.option("--stream", metavar="NAME", required=True, help="The stream of the lines.")
@click.option(
    "--agent",
    metavar="NAME",
    default=AGENT,
    show_default=True,
    help="The agent under whose name the lines are archived.",
)
@click.option(
    "--format", "source_format", type=click.Choice(["auto", *LINE_FORMATS]), default="auto", show_default=True,
    help="How the files are read.",
)  # fmt: skip
@click.option("--time-field", metavar="FIELD", help="The field that holds an event's time.")
@master_option
@output_option("table", "json")
def ingest(
    files: tuple[str, ...],
    archive: str,
    stream: str,
    agent: str,
    source_format: str,
    time_field: str | None,
    master: str,
    output: str,
) -> None:
    """Load FILEs, plain, .gz or .zst, into the archive of an agent, as if it had archived them itself.

    A FILE may be a pattern (quote it); workers of a cluster read the files under the same paths. Everything is
    committed at once, at the end. A file is known by its path and its first KiB: lines that are archived already are
    not loaded again. Lines that cannot be parsed are kept as they are, and counted.
    """
    from elf.batch.session.progress import spark_progress
    from elf.batch.session.session import spark_session
    from elf.batch.table import ingest as loading

    load = loading.BulkLoad(archive, stream, files, agent, source_format, time_field)
    with spark_session(master) as spark, spark_progress(spark):
        loaded = loading.ingest(spark, load)
    segments = loaded.segments
    summary = IngestSummary(
        loaded.files, loaded.present, len(segments), sum(one.rows for one in segments),
        sum(one.events for one in segments), sum(one.malformed for one in segments),
        sum(one.bytes for one in segments), loaded.faults,
    )  # fmt: skip
    click.echo(msgspec.json.encode(summary) if output == "json" else _text(summary))
    if loaded.faults:
        raise ElfError("; ".join(map(printable, loaded.faults)))


def _text(one: IngestSummary) -> str:
    present = f", {one.present:,} of them already there" if one.present else ""
    return (
        f"files: {one.files:,}{present}; lines: {one.rows:,} with {one.events:,} events, {one.malformed:,} malformed;"
        f" new segments: {one.segments:,} with {one.bytes:,} bytes"
    )
