"""`elf batch`: the archive, offline, on Spark."""

from __future__ import annotations

import click

from elf.options.lazy_group import LazyGroup

VERBS: tuple[str, ...] = (
    "backfill",
    "compact",
    "export",
    "get",
    "ingest",
    "reconcile",
    "run",
    "scan",
    "split",
)
"""Verbs of `elf batch`. Each is a click command in the module of its name here, loaded when it is called."""
EXAMPLES = """\b
Examples:
  elf batch ingest --archive shop-archive --stream web '/var/log/nginx/access.log*'
  elf batch run "SELECT status, COUNT(*) FROM web GROUP BY status" --archive shop-archive
  elf batch scan --archive hdfs://store/shop --stream web --from 2026-01-01 --to 2026-01-02 --limit 10
"""


@click.group(
    cls=LazyGroup,
    commands_in=__name__,
    verbs=VERBS,
    epilog=EXAMPLES,
    short_help="Query and maintain the archive of unchanged events, on Spark.",
)
def batch() -> None:
    """Work on the agents' archives: the unchanged events, as a table of which Spark reads no more than it needs.

    Spark runs in this command itself, with nothing to start, unless --master names a cluster.
    """
