"""Reports rewritten segments, for several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from elf.batch.table.compaction import Compacted


class RewriteSummary(msgspec.Struct, frozen=True):
    """Replaced segments, new ones, and deleted files, as `--output json` prints them."""

    removed: int
    removed_rows: int
    removed_bytes: int
    added: int
    added_rows: int
    added_bytes: int
    deleted: int


def show_rewritten(done: Compacted, output: str) -> None:
    """One line, or one object."""
    summary = RewriteSummary(
        len(done.removed), sum(one.rows for one in done.removed), sum(one.bytes for one in done.removed),
        len(done.added), sum(one.rows for one in done.added), sum(one.bytes for one in done.added), done.deleted,
    )  # fmt: skip
    click.echo(msgspec.json.encode(summary) if output == "json" else _text(summary))


def _text(one: RewriteSummary) -> str:
    deleted = f"; files deleted: {one.deleted:,}" if one.deleted else ""
    if not one.removed:
        return f"nothing to rewrite{deleted}"
    return (
        f"segments: {one.removed:,} with {one.removed_rows:,} rows and {one.removed_bytes:,} bytes"
        f" → {one.added:,} with {one.added_rows:,} rows and {one.added_bytes:,} bytes{deleted}"
    )
