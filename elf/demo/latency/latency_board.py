"""The picture of the demo of latency: results in time so far, and where their time goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from rich.console import Group, RenderableType
from rich.text import Text

from agent.control.observation.latency_entries import JobLatency
from elf.demo.story.board import happening, minutes
from elf.output.latency_table import AFTER_PUBLICATION, latency_table, phases_ms

TIMELINE_ROWS = 3
CLIENT_MS = 10.0
"""Upper bound, beside `deliver`, on the time from a publication until this process has the result."""
SUM_MS = 2.0
"""Upper bound on what phases and latency may differ by, on average."""


@dataclass(frozen=True, slots=True)
class SeenResult:
    """A result as it came: the latency that its line tells, and that by this process's clock (ms)."""

    latency_ms: float
    is_met: bool
    seen_ms: float
    slowest: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about results, with its numbers, and whether it holds."""

    is_right: bool
    text: str


@dataclass(slots=True)
class LatencyBoard:
    """Content of the screen. `found`: the master's own statistics, as `elf latency` shows them."""

    seconds: float
    elapsed_s: float = 0.0
    requests: int = 0
    results: list[SeenResult] = field(default_factory=list)
    found: JobLatency | None = None
    timeline: list[tuple[float, str]] = field(default_factory=list)

    def render(self) -> RenderableType:
        """The whole picture, some 35 lines."""
        head = Text(f"{minutes(min(self.elapsed_s, self.seconds))} of {minutes(self.seconds)}", style="bold")
        head.append(f" · {self.requests:,} requests answered", style="dim")
        table = Text("no result has been out yet ...", style="dim") if self.found is None else latency_table(self.found)
        return Group(head, Text(), table, Text(), *map(happening, self.timeline[-TIMELINE_ROWS:]))

    def progress(self) -> str:
        """The results so far, in a line."""
        last = self.results[-1]
        missed = f", mostly {last.slowest}" if last.slowest else ""
        return f"{in_time(self.results)}; the last one took {last.latency_ms:.0f} ms{missed}"


def in_time(results: Sequence[SeenResult]) -> str:
    """Says which part of the results was in time."""
    return f"{sum(one.is_met for one in results):,} of {len(results):,} results were in time"


def claims(results: Sequence[SeenResult], found: JobLatency, percent: float) -> list[Claim]:
    """The claims that results were in time, that this process had them soon, and that phases account for their time."""
    met = 100 * sum(one.is_met for one in results) / len(results)
    ways = [one.seen_ms - one.latency_ms for one in results]
    deliver_ms = next(one.mean_ms for one in found.phases if one.what == AFTER_PUBLICATION)
    sum_ms = phases_ms(found)
    late_ms = quantiles(ways, n=100, method="inclusive")[98] if len(ways) > 1 else ways[0]
    return [
        Claim(met >= percent, f"{in_time(results)}: {met:.1f} % ({percent:g} % asked for)"),
        Claim(
            median(ways) <= CLIENT_MS + deliver_ms,
            f"this process had them {median(ways):.1f} ms after the time that they tell, at p50 ({late_ms:.1f} at p99);"
            f" {deliver_ms:.1f} ms of that are deliver",
        ),
        Claim(
            abs(found.total.mean_ms - sum_ms) <= SUM_MS,
            f"their phases sum up to {sum_ms:.1f} ms, and they took {found.total.mean_ms:.1f} ms on average",
        ),
    ]
