"""The picture of the demo of keyed elements: the newest result, and the agents with what they host."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elf.client import Result
from elf.demo.elements.element_plays import ElementPlay
from elf.demo.elements.log_truth import given_up
from elf.demo.story.board import happening, minutes
from elf.terminal.terminal import printable

ROWS = 12
TIMELINE_ROWS = 5


@dataclass(slots=True)
class HostRow:
    """An agent as the picture has it. `servers`: whether it reads a log."""

    reads: bool
    state: str = "runs"
    nodes: int = 0
    elements: int = 0
    events_per_s: float = 0.0


@dataclass(slots=True)
class ElementBoard:
    """Content of the screen."""

    play: ElementPlay
    seconds: float
    hosts: dict[str, HostRow]
    elapsed_s: float = 0.0
    lines: int = 0
    window: Result | None = None
    windows: int = 0
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def render(self) -> RenderableType:
        """The whole picture, 23 lines at most."""
        both = Columns([self._result(), self._hosts()], padding=(0, 6))
        return Group(self._head(), Text(), both, Text(), *map(happening, self.timeline[-TIMELINE_ROWS:]))

    def _head(self) -> Text:
        head = Text(f"{minutes(min(self.elapsed_s, self.seconds))} of {minutes(self.seconds)}", style="bold")
        head.append(f" · {self.lines:,} lines logged", style="dim")
        if self.window is not None:
            head.append(f" · result {self.windows:,}, up to {self.window.window_end}", style="dim")
            if lacks := given_up(self.window):
                head.append(f" · {lacks}", style="yellow")
        return head

    def _result(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in self.play.columns:
            table.add_column(name, justify="right" if name in ("n", "serves", "ctr") else "left", no_wrap=True)
        rows: Sequence[dict[str, Any]] = self.window.rows if self.window is not None else []
        for row in rows[:ROWS]:
            table.add_row(*(_cell(name, row.get(name)) for name in self.play.columns))
        if not rows:
            table.add_row(Text("the first result is being made ...", style="dim"))
        return table

    def _hosts(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("agent", "nodes", "elements", "events/s"):
            table.add_column(name, justify="left" if name == "agent" else "right", no_wrap=True)
        for name, host in self.hosts.items():
            sign, style = ("●", "green") if host.state == "runs" else ("✗", "bold red")
            label = f"{sign} {name}" if host.reads else f"{sign} {name} (no log)"
            figures = (f"{host.nodes:,}", f"{host.elements:,}", f"{host.events_per_s:,.0f}")
            table.add_row(Text(label, style=style), *(figures if host.state == "runs" else ("killed", "", "")))
        return table


def _cell(name: str, value: Any) -> Text:
    if name == "ctr" and isinstance(value, float):
        return Text(f"{100 * value:.2f} %", style="cyan")
    return Text(f"{value:,}" if isinstance(value, int) else printable(str(value)))
