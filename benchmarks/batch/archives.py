"""Archives to measure on: the shop's events, kept as agents keep them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.archive.format.log import commit, create_store
from agent.archive.format.rows import ArchiveRows, FileOrigin, RowReader
from agent.archive.format.segments import write_segment
from agent.parsing import sniff
from agent.sources import SourceFile
from benchmarks.events import Dataset, write_shop_events

STREAM = "web"
SEGMENT_BYTES = 64 << 20
_WRITTEN_MS = 1_780_000_000_000


def write_archives(directory: Path, events: int, agents: int) -> tuple[Dataset, Path]:
    """The logs of so many agents, and the directory of their archives."""
    logs = write_shop_events(directory / "logs", events, files=agents)
    archives = directory / "archives"
    for number, path in enumerate(logs.paths):
        _write_store(archives / f"agent-{number}", f"agent-{number}", path)
    return logs, archives


def _write_store(store: Path, agent: str, log: Path) -> None:
    store.mkdir(parents=True)
    create_store(store, agent)
    segments = [write_segment(store, lots, _WRITTEN_MS) for lots in _lots(agent, log)]
    commit(store, _WRITTEN_MS, add=segments)


def _lots(agent: str, log: Path) -> Iterator[Sequence[ArchiveRows]]:
    """The rows of a log, as many together as are in a segment."""
    source = SourceFile(str(log))
    form = sniff(source.head(), str(log))
    reader = RowReader(FileOrigin(STREAM, agent, str(log), 1, form))
    lots: list[ArchiveRows] = []
    for block in source.blocks(block_bytes=2 << 20):
        if (rows := reader.read(block, 0)) is not None:
            lots.append(rows)
        if sum(rows.bytes for rows in lots) >= SEGMENT_BYTES:
            yield lots
            lots = []
    if lots:
        yield lots
