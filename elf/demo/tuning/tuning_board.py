"""The picture of the demo of online parameter optimization."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elf.demo.story.board import happening, minutes
from elf.demo.tuning.offer_site import REST, SLICES
from elf.demo.tuning.offer_visitors import VisitCounts

COMPARISONS_SHOWN = 8
MEASURED_S = 5
_TIMELINE_ROWS = 3
_RULE_CELLS = 50
_VERDICTS = {1: ("▲", "is better than", "green"), 0: ("=", "is equal to", "yellow"), -1: ("▼", "is worse than", "red")}


@dataclass(slots=True)
class TuningBoard:
    """Content of the screen. `outcomes` are those of the experiments so far; `shown` is what servers are shown."""

    seconds: float
    agents: int
    counts: VisitCounts | None = None
    shown: dict[str, Any] | None = None
    shown_by: int = 0
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def render(self) -> RenderableType:
        """The whole picture, 21 lines at most."""
        parts: list[RenderableType] = [self._head(), self._gain(), Text(), *self._rule(), Text()]
        return Group(*parts, self._comparisons(), Text(), *map(happening, self.timeline[-_TIMELINE_ROWS:]))

    def measured(self) -> tuple[float | None, float | None]:
        """The share of clicks among visits beyond the slices: in the first seconds, and in the last ones."""
        if self.counts is None:
            return None, None
        elapsed_s = self.counts.elapsed_s
        first = self.counts.share(REST, 0, min(elapsed_s, MEASURED_S))
        return first, self.counts.share(REST, max(0, elapsed_s - MEASURED_S), elapsed_s)

    def _head(self) -> Text:
        elapsed_s = self.counts.elapsed_s if self.counts is not None else 0.0
        head = Text(f"{minutes(min(elapsed_s, self.seconds))} of {minutes(self.seconds)}", style="bold")
        if self.counts is not None:
            head.append(f" · {self.counts.visits:,} visits", style="dim")
        return head

    def _gain(self) -> Text:
        first, last = self.measured()
        if first is None or last is None:
            return Text("nobody has seen an offer yet ...", style="dim")
        line = Text(f"beyond the slices {100 * last:.0f} of 100 visits click now")
        line.append(f", {100 * first:.0f} did at first", style="dim")
        if first > 0:
            line.append(f"  {100 * (last / first - 1):+.0f} %", style="bold green" if last >= first else "bold red")
        return line

    def _rule(self) -> list[Text]:
        """The range of the parameter, with the best point, and the slices' (in capitals where they are the best)."""
        if self.shown is None:
            return [Text("no web server is shown a prominence yet ...", style="dim")]
        marks = {name: self.shown["slices"][name]["prominence"] for name in SLICES}
        best = self.shown["best"]["prominence"]
        cells = ["·"] * (_RULE_CELLS + 1)
        cells[round(best * _RULE_CELLS)] = "█"
        for name, value in marks.items():
            place = round(value * _RULE_CELLS)
            cells[place] = name.upper() if cells[place] == "█" else name
        shows = f"{self.shown_by} of {self.agents} servers show it"
        points = "  ".join(f"{name} {value:.3f}" for name, value in marks.items())
        return [
            Text.assemble("prominence 0 ", ("".join(cells), "cyan"), " 1"),
            Text.assemble(f"{points}  ", (f"best so far {best:.3f}", "bold"), (f"  {shows}", "dim")),
        ]

    def _comparisons(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for heading in ("experiment", "compared", "difference", "slots", "best so far"):
            table.add_column(heading, justify="left" if heading == "compared" else "right", no_wrap=True)
        total = len(self.outcomes)
        for number, outcome in list(enumerate(self.outcomes, 1))[-COMPARISONS_SHOWN:]:
            best = self.outcomes[number]["best"] if number < total else (self.shown or outcome)["best"]
            table.add_row(
                str(number),
                compared(outcome),
                f"{100 * outcome['difference']:+.1f} of 100",
                str(outcome["slots"]),
                f"{best['prominence']:.3f}",
            )
        return table


def compared(outcome: dict[str, Any]) -> Text:
    """The two points of an experiment, and the verdict."""
    sign, words, style = _VERDICTS[outcome["verdict"]]
    first, second = (outcome["slices"][name]["prominence"] for name in SLICES)
    return Text.assemble((sign, style), f" {first:.3f} {words} {second:.3f}")


def outcome_line(outcomes: Sequence[dict[str, Any]]) -> str:
    """The last outcome as a line, where there is no picture."""
    last = outcomes[-1]
    return (
        f"experiment {len(outcomes)}: {compared(last).plain[2:]}, by {100 * last['difference']:+.1f} of 100 visits over"
        f" {last['slots']} slots"
    )
