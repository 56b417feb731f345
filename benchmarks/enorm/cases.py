"""Windows of figures 7 and 8 of Enorm, of its sections 2 and 7.1, and some beyond."""

from dataclasses import dataclass

from cbt.windows import PanePlan, WindowSize

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Case:
    """Windows asked for, in minutes with how often they come, over so many `hours`.

    `alone`: the number of states that they merge where each is made of its panes. `invertible`, `others`: what is aimed
    at, of states that can be taken off and of others.
    """

    name: str
    windows: tuple[tuple[int, int], ...]
    hours: int
    alone: int
    invertible: int
    others: int

    @property
    def panes(self) -> PanePlan:
        return PanePlan([WindowSize(size * MINUTE_MS, every * MINUTE_MS) for size, every in self.windows])

    @property
    def clause(self) -> str:
        """The windows in ELF QL."""
        return ", ".join(f"{size} MINUTES EVERY {every} MINUTES" for size, every in self.windows)


def _tumbling(*sizes: int) -> tuple[tuple[int, int], ...]:
    return tuple((size, size) for size in sizes)


CASES = (
    Case("figure 7: 1, 5, 10, 15, 20 min", _tumbling(1, 5, 10, 15, 20), 1, 240, 86, 86),
    Case("the same of panes of 5 min", _tumbling(5, 10, 15, 20), 1, 36, 26, 26),
    Case("section 2: 10, 30 min, 1, 6, 24 h", _tumbling(10, 30, 60, 360, 1440), 24, 576, 220, 220),
    Case("section 7.1: 1, 5, 10, 15, 20, 25, 30 min", _tumbling(1, 5, 10, 15, 20, 25, 30), 5, 1800, 478, 478),
    Case("1, 20, 30, 40 min", _tumbling(1, 20, 30, 40), 2, 360, 139, 146),
    Case("10 and 30 min every minute, 1 h every 5", ((1, 1), (10, 1), (30, 1), (60, 5)), 1, 3120, 384, 804),
    Case("1 h every minute", ((1, 1), (60, 1)), 1, 3600, 180, 3600),
)
