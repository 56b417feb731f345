"""What the parsing tests share: events as plain rows, whatever frames they came in."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from agent.parsing import COERCED, TIME, Format, Parsed, Parser, SourceColumn, parser
from agent.sources import Block, Origin
from agent.sources.blocks import BlockCutter, cut_blocks


@dataclass(frozen=True)
class Events:
    """Rows as (time, values of the columns, coerced); the repr of a value tells 1 from 1.0 and true."""

    rows: list[tuple[int, tuple[str, ...], int]]
    malformed: int
    overlong: int = 0

    @property
    def counted(self) -> Counter[tuple[int, tuple[str, ...], int]]:
        return Counter(self.rows)

    def values(self) -> list[tuple[Any, ...]]:
        return [values for _, values, _ in self.rows]


def rows_of(parsed: Parsed, columns: Sequence[SourceColumn]) -> list[tuple[int, tuple[str, ...], int]]:
    rows = []
    for frame in parsed.frames:
        assert frame.height
        assert frame[TIME].null_count() == 0
        assert set(frame.columns) == {TIME, *(column.name for column in columns)} | ({COERCED} & set(frame.columns))
        for row in frame.iter_rows(named=True):
            values = tuple(repr(row[column.name]) for column in columns)
            rows.append((row[TIME], values, row.get(COERCED, 0)))
    return rows


def parse_all(reader: Parser, blocks: Sequence[Block], columns: Sequence[SourceColumn], arrival_ms: int) -> Events:
    results = [reader.parse(block, arrival_ms) for block in blocks]
    rows = [row for parsed in results for row in rows_of(parsed, columns)]
    return Events(rows, sum(parsed.malformed for parsed in results), sum(block.overlong for block in blocks))


@pytest.fixture(scope="session")
def column() -> Callable[..., SourceColumn]:
    def make(name: str, use: str = "any", *, path: tuple[str, ...] | None = None) -> SourceColumn:
        return SourceColumn(name, path or tuple(name.split(".")), use)

    return make


@pytest.fixture(scope="session")
def parse() -> Callable[..., Events]:
    """The events of bytes, as one block or cut into blocks of the given size."""

    def read(
        data: bytes,
        form: Format,
        columns: Sequence[SourceColumn],
        *,
        block_bytes: int | None = None,
        arrival_ms: int = 7,
    ) -> Events:
        if block_bytes is None:
            blocks = [Block(data, Origin("log", 0), 0)]
        else:
            cutter = BlockCutter("log", block_bytes, csv_quotes=form.kind == "csv")
            blocks = list(cut_blocks([data[at : at + 64] for at in range(0, len(data), 64)], cutter))
        return parse_all(parser(form, columns), blocks, columns, arrival_ms)

    return read
