"""Logs of many makers, and real ones, are read alike by the native scanners and the exact parsers."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from makers import MAKERS, lines_of
from two_ways import rows_of

from agent.archive.format.rows import FileOrigin, RowReader
from agent.parsing import Format, SourceColumn, combined, json_lines, parser, sniff
from agent.parsing.native import json_scanner, native_status
from agent.sources import Block, Origin, SourceError

native = pytest.mark.skipif(json_scanner([("a",)]) is None, reason=f"lines are parsed {native_status()}")
ARRIVAL_MS = 1_700_000_000_000
USES = ("any", "number", "integer", "string", "boolean", "timestamp")
LINES = 200
LINES_OF_REAL_LOGS = 3_000


def _read(form: Format, columns: Sequence[SourceColumn], block: Block) -> tuple[list[str], int]:
    return rows_of(parser(form, columns).parse(block, ARRIVAL_MS))


def _rows(form: Format, blocks: Sequence[Block]) -> list[object]:
    """The rows of an archive, with their columns."""
    reader = RowReader(FileOrigin("web", "web-1", "a.log", 7, form))
    found: list[object] = []
    for block in blocks:
        rows = reader.read(block, ARRIVAL_MS)
        assert rows is not None
        assert reader.fault is None
        fields = {name: (field.kind, list(map(repr, field.values))) for name, field in rows.fields.items()}
        found.append((rows.times.to_list(), rows.events.to_list(), fields, rows.is_complete, rows.malformed))
    return found


def _check(form: Format, blocks: Sequence[Block]) -> None:
    """Both ways say the same of all columns, under each use, and of the rows of an archive."""
    names = [name for name in form.header or () if name][:24]
    paths = [path for name in names for path in {(name,), tuple(name.split("."))}]
    wanted = [[SourceColumn(f"{use} {path}", path, use) for path in paths] for use in USES] + [[]]

    def everything() -> list[object]:
        return [*(_read(form, columns, block) for columns in wanted for block in blocks), _rows(form, blocks)]

    scanned = everything()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "json_scanner", lambda *_, **__: None)
        patch.setattr(combined, "combined_scanner", lambda *_: None)
        exact = everything()
    for one, other in zip(scanned, exact, strict=True):
        assert one == other


def _blocks(lines: Sequence[bytes], count: int) -> list[Block]:
    parts = [b"".join(lines[at : at + count]) for at in range(0, len(lines), count)]
    return [Block(part, Origin("a.log", at), 0) for at, part in enumerate(parts)]


@native
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MAKERS)
def test_logs_of_a_maker_are_read_alike(name: str, seed: int) -> None:
    lines = list(lines_of(MAKERS[name], seed, LINES))
    data = b"".join(lines)
    try:
        fields = sniff(data, "a.log", "json").header
    except SourceError:
        fields = ("time", "a")
    times = (None, "time", "ts", "timestamp", "request.tls.version")
    forms = [Format("json", field, fields) for field in times]
    for form in [*forms, Format("combined", "time", tuple(combined.COLUMNS))]:
        _check(form, _blocks(lines, LINES // 4))


@native
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["json", "combined"])
def test_real_logs_are_read_alike(real_logs: Path, kind: str) -> None:
    for path in sorted(real_logs.rglob("*.gz")):
        with gzip.open(path) as file:
            lines = list(itertools.islice(file, LINES_OF_REAL_LOGS))
        try:
            form = sniff(b"".join(lines), path.name, kind)
        except SourceError:
            form = Format(kind, "time", ("time", "a"))
        _check(form, _blocks(lines, LINES_OF_REAL_LOGS // 3))
