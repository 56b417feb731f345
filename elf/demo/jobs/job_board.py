"""The picture of the demo of shipped jobs: a row for each job, and the last lines of their logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elf.demo.jobs.job_checks import JobRecord
from elf.demo.jobs.job_plays import Role
from elf.demo.load.load import LoadReport
from elf.demo.load.shopper import FLASH_BEGIN, FLASH_END
from elf.demo.story.board import happening, minutes
from elf.terminal.terminal import printable

TIMELINE_ROWS = 6


@dataclass(slots=True)
class JobBoard:
    """Content of the screen. `masters` and `seen` are by app."""

    roles: Sequence[Role]
    seconds: float
    load: LoadReport | None = None
    masters: dict[str, str] = field(default_factory=dict)
    seen: Mapping[str, JobRecord] = field(default_factory=dict)
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def render(self) -> RenderableType:
        """The whole picture, 20 lines at most with three jobs."""
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
        table.add_column("job", no_wrap=True)
        table.add_column("what it does, says, shows", ratio=1)
        table.add_column("results", justify="right", no_wrap=True)
        table.add_column("master", no_wrap=True)
        for role in self.roles:
            seen = self.seen[role.app]
            table.add_row(
                Text(role.app, style="bold cyan"),
                _activity(role, seen),
                f"{len(seen.windows):,}",
                self.masters.get(role.app, "..."),
            )
        return table


def _activity(role: Role, seen: JobRecord) -> Text:
    lines = [Text(role.works, style="dim")]
    if seen.said:
        lines.append(Text(printable(seen.said[-1])))
    if role.asks:
        lines.append(Text(f"{len(seen.shown)} × ──▶ {', '.join(role.asks)}", style="yellow"))
    elif seen.shown:
        lines.append(Text(printable(f"shows {in_words(seen.shown[-1])}"), style="green"))
    return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


def in_words(value: Any) -> str:
    """The first value that a job has shown, as text.

    >>> in_words({"discounts": ["a", "b"], "as_of": "..."})
    'discounts: a, b'
    >>> in_words({"bundles": [["a", "b"], ["c"]]})
    'bundles: a + b, c'
    """
    if isinstance(value, dict) and value:
        name, first = next(iter(value.items()))
        return f"{name}: {in_words(first)}"
    if isinstance(value, list):
        return ", ".join(" + ".join(map(str, one)) if isinstance(one, list) else str(one) for one in value) or "none"
    return str(value)
