"""A table and its session, opened for one command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from elf.batch.session.progress import spark_progress
from elf.batch.session.session import spark_session
from elf.batch.table.table import ArchiveTable
from elf.terminal.terminal import printable, tell


@contextmanager
def opened_table(archives: Sequence[str], master: str, *, skip_torn: bool = False) -> Iterator[ArchiveTable]:
    """The table, with Spark's progress on a terminal; segments that were left out are reported at the end."""
    with spark_session(master) as spark, spark_progress(spark):
        table = ArchiveTable.open(spark, archives, skip_torn=skip_torn)
        yield table
    for fault in table.skipped.values():
        tell(f"elf batch: left out: {printable(fault)}")
