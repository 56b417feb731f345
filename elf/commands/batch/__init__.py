"""`elf batch`: the archive, offline, on Spark."""

from __future__ import annotations

from importlib import import_module

import click

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
"""Each has a module of its name here with a click command of its name, loaded when it is asked for."""
EXAMPLES = """\b
Examples:
  elf batch ingest --archive shop-archive --stream web '/var/log/nginx/access.log*'
  elf batch run "SELECT status, COUNT(*) FROM web GROUP BY status" --archive shop-archive
  elf batch scan --archive hdfs://store/shop --stream web --from 2026-01-01 --to 2026-01-02 --limit 10
"""


class _Verbs(click.Group):
    """Loads a verb when it is asked for: each needs other parts of Spark and ELF."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(import_module(f"elf.commands.batch.{cmd_name}"), cmd_name)
        return command


@click.group(cls=_Verbs, epilog=EXAMPLES, short_help="Ask and keep the archive of unchanged events, on Spark.")
def batch() -> None:
    """Work on what agents archive: the unchanged events, as a table of which Spark reads no more than it needs.

    Spark runs in this command itself, with nothing to start, unless --master names a cluster.
    """
