"""Renders the demo: one picture for a terminal, which is redrawn, or lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elf.demo.load.load import LoadReport
from elf.demo.load.shopper import FLASH_BEGIN, FLASH_END
from elf.terminal.terminal import printable

ROWS = 10
TIMELINE_ROWS = 6
_BAR_CELLS = 24
_BAR = "█"
_STATES = {"runs": ("●", "green"), "killed": ("✗", "bold red"), "starts": ("◌", "yellow"), "gone": ("✗", "red")}


@dataclass(frozen=True, slots=True)
class ShownWindow:
    """One result of the live query, with its arrival in seconds since the query; `lag_s` counts from window end and
    grace.
    """

    start_ms: int
    end_ms: int
    rows: Sequence[dict[str, Any]]
    contributors: int
    expected: int
    missing: tuple[str, ...]
    partial: tuple[str, ...]
    events: int
    late: int
    at_s: float
    lag_s: float

    @property
    def title(self) -> str:
        return f"{_clock(self.start_ms)} … {_clock(self.end_ms)}"

    @property
    def events_per_s(self) -> float:
        return self.events * 1000 / (self.end_ms - self.start_ms)

    @property
    def is_complete(self) -> bool:
        return self.contributors == self.expected and not self.partial

    @property
    def completeness(self) -> str:
        """`8 of 8`, or `7 of 8 · missing agent-5`."""
        parts = [f"{self.contributors} of {self.expected}"]
        for word, names in (("missing", self.missing), ("in part", self.partial)):
            if names:
                parts.append(f"{word} {', '.join(map(printable, names))}")
        return " · ".join(parts)


@dataclass(slots=True)
class Board:
    """Content of the screen. `timeline` has the events so far, with the second of each."""

    query: str
    seconds: float
    agents: dict[str, str]
    elapsed_s: float = 0.0
    load: LoadReport | None = None
    windows: list[ShownWindow] = field(default_factory=list)
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def render(self) -> RenderableType:
        """The whole picture, 23 lines at most with ten rows."""
        parts = [self._head(), *self._result(), Text(), self._fleet(), Text()]
        return Group(*parts, *map(happening, self.timeline[-TIMELINE_ROWS:]))

    def _head(self) -> Text:
        elapsed = min(self.elapsed_s, self.seconds)
        head = Text(f"{minutes(elapsed)} of {minutes(self.seconds)}", style="bold")
        if self.load is not None:
            head.append(f" · {self.load.requests:,} requests answered", style="dim")
            if FLASH_BEGIN <= self.load.elapsed_s / self.load.seconds < FLASH_END:
                head.append(f" · a crowd wants {self.load.flash_product}", style="yellow")
        return head

    def _result(self) -> list[RenderableType]:
        if not self.windows:
            return [Text("the first window has not closed yet ...", style="dim")]
        window = self.windows[-1]
        title = Text.assemble((window.title, "bold"), "   ", _completeness(window))
        return [title, _table(window)]

    def _fleet(self) -> Text:
        signs = (Text(f"{_STATES[state][0]} {name}", style=_STATES[state][1]) for name, state in self.agents.items())
        line = Text(" ").join(signs)
        if self.windows:
            window = self.windows[-1]
            line.append("\n").append(f"{window.events_per_s:,.0f} events/s").append(f" · lag {window.lag_s:.2f} s")
            line.append(f" · window {len(self.windows)}")
        return line


def window_line(window: ShownWindow) -> str:
    """A window as a line: time, completeness, rate, lag, and its first row."""
    top = ", ".join(printable(str(value)) for value in window.rows[0].values()) if window.rows else "no rows"
    return (
        f"{window.title}  {window.completeness}  {window.events_per_s:,.0f} events/s  lag {window.lag_s:.2f} s"
        f"  top: {top}"
    )


def happening_line(at_s: float, text: str) -> str:
    """One line of the timeline."""
    return f"{minutes(at_s)}  {printable(text)}"


def happening(entry: tuple[float, str]) -> Text:
    """An entry of the timeline, in the picture."""
    at_s, text = entry
    return Text.assemble((minutes(at_s), "dim"), "  ", printable(text))


def _completeness(window: ShownWindow) -> Text:
    return Text(window.completeness, style="bold green" if window.is_complete else "bold red")


def _table(window: ShownWindow) -> Table:
    """The rows, with a bar for the number in the last column."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    names = list(window.rows[0]) if window.rows else ["no rows"]
    for name in names:
        table.add_column(Text(printable(name)), justify="right" if name == names[-1] and len(names) > 1 else "left")
    table.add_column()
    numbers = [value for row in window.rows if isinstance(value := row[names[-1]], int | float)]
    greatest = max([1, *numbers])
    for row in window.rows[:ROWS]:
        value = row[names[-1]]
        bar = _BAR * round(_BAR_CELLS * value / greatest) if isinstance(value, int | float) else ""
        table.add_row(*(Text(printable(_cell(value))) for value in row.values()), Text(bar, style="cyan"))
    return table


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "NULL" if value is None else str(value)


def _clock(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000).strftime("%H:%M:%S")


def minutes(seconds: float) -> str:
    """Minutes and seconds, as `02:05`."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"
