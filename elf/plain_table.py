"""Tables of things that agents say of themselves; what a peer may have made up is made safe to show."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from elf.terminal import printable

Cell = str | int | float | None


def plain_table(titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """Titles and rows without lines between them, numbers to the right, nothing for None; long texts are folded."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(titles):
        right = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        table.add_column(Text(title), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: Cell) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, int):
        return Text(f"{value:,}")
    return Text(f"{value:,.1f}" if isinstance(value, float) else printable(value))
