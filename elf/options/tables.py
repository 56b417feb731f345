"""Options that name files, as NAME=FILE."""

from __future__ import annotations

from collections.abc import Iterable

import click

from elf.errors import UsageError

tables_option = click.option(
    "--table", "tables", metavar="NAME=FILE", multiple=True,
    help="A file of rows (JSON lines, CSV or TSV) to join with, as JOIN table('NAME'); may be repeated.",
)  # fmt: skip


def named_files(tables: Iterable[str]) -> dict[str, str]:
    """Look-up tables' files by name; raises UsageError."""
    return dict(pair_of("--table", "NAME=FILE", pair) for pair in tables)


def pair_of(option: str, form: str, pair: str) -> tuple[str, str]:
    name, separator, path = pair.partition("=")
    if not (name and separator and path):
        raise UsageError(f"{option} {pair!r} is not {form}")
    return name, path
