"""`elf batch reconcile`: published windows compared with the archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elf.commands.batch.opened import opened_table
from elf.commands.batch.options import (
    archives_option,
    from_option,
    master_option,
    moments,
    skip_torn_option,
    to_option,
)
from elf.errors import ElfError, UsageError
from elf.options.fleet import app_argument, output_option
from elf.terminal.terminal import printable, tell

if TYPE_CHECKING:
    from elf.batch.reconcile.verdicts import Judged

EXAMPLES = """\b
Examples:
  elf batch reconcile errors --archive shop-archive
  elf batch reconcile errors --archive shop-archive --from 2026-01-01T10:00Z --to 2026-01-01T11:00Z --html errors.html
  elf follow errors --output json > errors.jsonl
  elf batch reconcile errors --archive shop-archive --live errors.jsonl --query "SELECT ... WINDOWING 1 MINUTE"

\b
Verdicts: equal; explained, by what the result says of itself (missing agents, without which it is equal; late events,
which account for the difference to the last one; agents that are there in part; ...); unchecked, where nothing but the
job itself can compute the window; unexplained, which is a fault of ELF or of what was archived.

\b
Exit codes: 0 nothing is unexplained, 1 something is, or nothing could be compared, 2 wrong usage.
"""


@click.command(epilog=EXAMPLES, short_help="Compare published windows with the archive.")
@app_argument
@archives_option
@from_option
@to_option
@click.option(
    "--live", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The windows, as elf follow or elf query printed them with --output json; else those in the archive.",
)  # fmt: skip
@click.option("--query", "query_text", metavar="TEXT", help="The query that made the windows in --live.")
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write a report with a picture."
)
@output_option("table", "json")
@skip_torn_option
@master_option
def reconcile(
    app: str,
    archives: tuple[str, ...],
    since: str | None,
    until: str | None,
    live: Path | None,
    query_text: str | None,
    html: Path | None,
    output: str,
    skip_torn: bool,
    master: str,
) -> int:
    """Compute the windows that APP has published again, from the archive, and say of each whether they are equal.

    Each is computed from the events of the agents that contributed to it. APP is a name, or NAME@CREATOR.
    """
    if (live is None) != (query_text is None):
        raise UsageError("--live FILE and --query TEXT go together: what was printed does not say how it was computed")
    since_ms, until_ms = moments(since, until)
    from elf.batch.reconcile.live_results import read_printed
    from elf.batch.reconcile.recomputation import SparkArchive
    from elf.batch.reconcile.reconciliation import reconcile as reconciled
    from elf.batch.reconcile.text import print_judged

    with opened_table(archives, master, skip_torn=skip_torn) as table:
        archive = SparkArchive(table)
        if live is not None and query_text is not None:
            with live.open("rb") as lines:
                job = read_printed(lines, archive.version_of(app, query_text)).between(since_ms, until_ms)
        else:
            job = archive.live_job(app, since_ms, until_ms)
        judged = reconciled(job, archive)
    if job.torn:
        tell(f"{job.torn:,} lines were no results")
    if html is not None:
        _write_page(html, app, {one.version: one.text for one in job.versions.values()}, judged)
    print_judged(app, judged, output)
    if not judged:
        where = live or "the archive"
        raise ElfError(f"{printable(str(where))} has no window of {printable(app)} in that time")
    return int(any(one.verdict == "unexplained" for one in judged))


def _write_page(path: Path, app: str, queries: dict[int, str], judged: list[Judged]) -> None:
    from elf.batch.reconcile.page import page

    try:
        path.write_text(page(app, sorted(queries.items()), judged), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ElfError(f"--html {printable(str(path))}: {(error.strerror or str(error)).lower()}") from error
