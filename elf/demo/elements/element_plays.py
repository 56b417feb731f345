"""The demos of keyed elements, and what each of them shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elf.client import Result
from elf.demo.elements.log_truth import LogComparison, top_words
from elf.demo.elements.log_writing import Write, quotes

Judge = Callable[[Sequence[Result], Sequence[Path]], LogComparison]


@dataclass(frozen=True, slots=True)
class ElementPlay:
    """A shipped job with keyed elements. `streams`: of each server, the stream that it logs. `rate`: lines a second.

    `speed`: how many times as fast as usual the clock runs. `columns`: what is shown of a row. `judge` compares the
    windows with the logs.
    """

    name: str
    about: str
    streams: Sequence[str]
    rate: float
    write: Callable[[int], Write]
    judge: Judge
    columns: Sequence[str]
    speed: int = 1
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
            ("quotes",) * 6, 60.0, quotes, top_words, ("word", "n"),
        ),
    )
}  # fmt: skip
HOSTS = 2
"""Number of agents without logs, which host elements alone: one of them is killed."""


def element_play(name: str) -> ElementPlay | None:
    """The demo of keyed elements of this name; None if there is none."""
    return ELEMENT_PLAYS.get(name.replace("-", "_"))
