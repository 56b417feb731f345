"""The demos of keyed elements, and what each of them shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elf.client import Result
from elf.demo.elements.log_truth import HostKill, LogComparison, click_rates, top_words
from elf.demo.elements.log_writing import Write, adverts, quotes

Judge = Callable[[Sequence[Result], Sequence[Path], HostKill], LogComparison]


@dataclass(frozen=True, slots=True)
class ElementPlay:
    """A shipped job with keyed elements. `streams`: of each server, the stream that it logs. `rate`: lines a second.

    `columns`: what is shown of a row. `judge` compares the windows with the logs. `past_hours`: the time that passes in
    the logs, up to now, as in a time-lapse; 0: it is the wall clock's. `lead_hours`: those that logs are ahead of
    results at most: a busy machine takes longer. `kill_at`: the part of the time after which a host is killed.
    """

    name: str
    about: str
    streams: Sequence[str]
    rate: float
    write: Callable[[int], Write]
    judge: Judge
    columns: Sequence[str]
    past_hours: int = 0
    lead_hours: int = 0
    kill_at: float = 0.45
    tail_s: float = 8.0
    """Time after the last line until the last result has come."""

    @property
    def app(self) -> str:
        return self.name.replace("_", "-")


ELEMENT_PLAYS: Mapping[str, ElementPlay] = {
    one.name: one
    for one in (
        ElementPlay(
            "top_words", "the ten words used most in quotations: each word is counted by an element of its own",
            ("quotes",) * 3, 20.0, quotes, top_words, ("word", "n"),
        ),
        ElementPlay(
            "ctr", "clicks per serve of each query and ad in 24 hours, every hour, over logs in which 54 hours pass",
            ("serves", "clicks"), 200.0, adverts, click_rates, ("query", "ad", "serves", "ctr"),
            past_hours=54, lead_hours=8, kill_at=0.25,
        ),
    )
}  # fmt: skip
HOSTS = 2
"""Number of agents without logs, which host elements alone: one of them is killed."""


def element_play(name: str) -> ElementPlay | None:
    """The demo of keyed elements of this name; None if there is none."""
    return ELEMENT_PLAYS.get(name.replace("-", "_"))
