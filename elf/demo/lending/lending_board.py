"""The picture of the demo of lending: areas in the last hour, the whole company in windows of every length."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elf.client import Result
from elf.demo.lending.lending_truth import HOUR_MS, OPERATORS, SIZES_MS, clock, length
from elf.demo.story.board import happening, minutes
from elf.demo.story.truth import instant
from elf.terminal.terminal import printable

TIMELINE_ROWS = 4


@dataclass(slots=True)
class LendingBoard:
    """Content of the screen. `newest`: of each operator's name and each length (ms), the newest window."""

    seconds: float
    applications: int = 0
    passed_s: float = 0.0
    now_ms: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    newest: dict[tuple[str, int], Result] = field(default_factory=dict)
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def add(self, operator: str, window: Result) -> None:
        """Takes an operator's window."""
        size_ms = instant(window.window_end or "") - instant(window.window_start or "")
        self.newest[operator, size_ms] = window
        self.counts[operator] = self.counts.get(operator, 0) + 1

    def render(self) -> RenderableType:
        """The whole picture, 23 lines at most."""
        both = Columns([self._areas(), self._sizes()], padding=(0, 6))
        told = map(happening, self.timeline[-TIMELINE_ROWS:])
        return Group(self._head(), Text(), both, Text(), self._operators(), Text(), *told)

    def _head(self) -> Text:
        head = Text(f"{minutes(min(self.passed_s, self.seconds))} of {minutes(self.seconds)}", style="bold")
        if self.now_ms:
            head.append(f" · in the logs it is {clock(self.now_ms)}", style="cyan")
        return head.append(f" · {self.applications:,} applications", style="dim")

    def _areas(self) -> Table:
        """Each area's interest, income and approval in the last whole hour."""
        table = _table("last hour", "interest", "income", "approved", "of")
        interest = {row["area"]: row for row in self._rows("area_interest", HOUR_MS)}
        for row in self._rows("area_approval", HOUR_MS):
            loans = interest.get(row["area"], {})
            table.add_row(
                Text(printable(str(row["area"])), style="cyan"),
                _per_cent(loans.get("rate"), 100),
                _whole(loans.get("income")),
                _per_cent(row["share"], 0.01),
                _whole(row["applications"]),
            )
        return table

    def _sizes(self) -> Table:
        """The whole company's interest and approval, in the newest window of each length."""
        table = _table("all areas", "interest", "approved", "of", "up to")
        for size_ms in SIZES_MS:
            interest, approval = self._rows("interest", size_ms), self._rows("approval", size_ms)
            newest = self.newest.get(("approval", size_ms))
            table.add_row(
                length(size_ms),
                _per_cent(interest[0]["rate"] if interest else None, 100),
                _per_cent(approval[0]["share"] if approval else None, 0.01),
                _whole(approval[0]["applications"] if approval else None),
                Text(clock(instant(newest.window_end or ""))[5:] if newest is not None else "", style="dim"),
            )
        return table

    def _operators(self) -> Text:
        counts = (f"op{one.number} {one.name} {self.counts.get(one.name, 0):,}" for one in OPERATORS)
        return Text(f"windows: {', '.join(counts)}", style="dim", no_wrap=True, overflow="ellipsis")

    def _rows(self, operator: str, size_ms: int) -> Sequence[dict[str, Any]]:
        window = self.newest.get((operator, size_ms))
        return window.rows if window is not None else ()


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _per_cent(value: float | None, of: float) -> str:
    return f"{value / of:.2f} %" if value is not None else ""


def _whole(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None else ""
