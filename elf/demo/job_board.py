"""What the demo of shipped jobs shows: a row for each job, and what their code says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elf.client import Result
from elf.terminal import printable

from .board import clock, happening, minutes
from .job_checks import Seen
from .job_plays import Role
from .load import LoadReport
from .shopper import FLASH_BEGIN, FLASH_END

TIMELINE_ROWS = 12
_LATEST_CHARACTERS = 60


@dataclass(slots=True)
class JobBoard:
    """Everything on the screen. `masters` and `seen` are by app."""

    roles: Sequence[Role]
    seconds: float
    load: LoadReport | None = None
    masters: dict[str, str] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def render(self) -> RenderableType:
        """The whole picture."""
        return Group(self._head(), Text(), self._jobs(), Text(), *map(happening, self.timeline[-TIMELINE_ROWS:]))

    def _head(self) -> Text:
        elapsed_s = min(self.load.elapsed_s, self.seconds) if self.load is not None else 0.0
        head = Text(f"{minutes(elapsed_s)} of {minutes(self.seconds)}", style="bold")
        if self.load is not None:
            head.append(f" · {self.load.requests:,} requests answered", style="dim")
            if FLASH_BEGIN <= self.load.elapsed_s / self.load.seconds < FLASH_END:
                head.append(f" · a crowd wants {self.load.flash_product}", style="yellow")
        return head

    def _jobs(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("job", "how it works", "master", "results", "the last one"):
            table.add_column(name, justify="right" if name == "results" else "left")
        for role in self.roles:
            windows = self.seen[role.app].windows
            asks = f"\n  ──▶ {', '.join(role.asks)}" if role.asks else ""
            table.add_row(
                Text(role.app, style="bold cyan"),
                Text(role.works + asks),
                self.masters.get(role.app, "..."),
                f"{len(windows):,}",
                Text(latest(windows[-1]) if windows else "...", style="green"),
            )
        return table


def latest(window: Result) -> str:
    """A window in a few words: when, how complete, how many rows, and the first."""
    first = ", ".join(printable(str(value)) for value in window.rows[0].values()) if window.rows else "no rows"
    return (f"{clock(window.pane)}  {window.contributors} of {window.expected}  {len(window.rows)} rows: {first}")[
        :_LATEST_CHARACTERS
    ]
