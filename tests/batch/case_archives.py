"""Archives of the tables of query cases, one store for each table."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from agent.archive.format.log import commit, create_store
from agent.archive.format.rows import FileOrigin, RowReader
from agent.archive.format.segments import write_segment
from agent.parsing import sniff
from agent.sources import Block, Origin

WRITTEN_MS = 1_750_000_000_000


def archived_lines(folder, stream, lines, arrival_ms, *, agent="web-1", time_field=None, kind="json", segments=1):
    """A store with these lines, dealt to so many segments as if each were a file."""
    store = Path(folder)
    store.mkdir(parents=True)
    create_store(store, agent)
    lots = [lines[number::segments] for number in range(segments)]
    for number, lot in enumerate(lots):
        data = "".join(line + "\n" for line in lot).encode() or b"\n"
        form = sniff(data, "lines", kind, time_field)
        origin = FileOrigin(stream, agent, f"/var/log/{number}", number, form)
        rows = RowReader(origin).read(Block(data, Origin("lines", 0), 0), arrival_ms)
        if rows is not None:
            commit(store, WRITTEN_MS + number, add=[write_segment(store, [rows], WRITTEN_MS + number)])
    return store


class CaseArchives:
    """The stores of tables, each made once."""

    def __init__(self, folder: Path, arrival_ms: int) -> None:
        self._folder, self._arrival_ms = folder, arrival_ms

    def uris(self, tables):
        """Files of a case's streams."""
        return [self._uri(name, table) for name, table in tables.items() if table.lookup is None]

    def _uri(self, name, table):
        lines = [json.dumps(event) for event in table.events()]
        digest = hashlib.blake2b(json.dumps([name, table.time, lines]).encode(), digest_size=8).hexdigest()
        store = self._folder / digest
        if not store.exists():
            archived_lines(store, name, lines, self._arrival_ms, agent=digest, time_field=table.time, segments=2)
        return str(store)
