"""Shows something that changes again and again, each look in place of the one before."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


def looks(every_s: float, rounds: int | None) -> Iterator[int]:
    """Yields the numbers of looks from 0 on, with a time (s) between two; `rounds`: as many; None: for ever."""
    for number in count() if rounds is None else range(rounds):
        if number:
            time.sleep(every_s)
        yield number


def show_looks(
    drawn: Callable[[int | None], RenderableType], every_s: float, rounds: int | None, *, in_place: bool
) -> None:
    """Prints what is drawn at each look or, `in_place`, draws over the one before. `drawn` gets the number of lines
    that the terminal has; None: nothing bounds them."""
    from elf.terminal.console import open_console
    from elf.terminal.live_region import LiveRegion

    console = open_console(sys.stdout)
    region = LiveRegion(console) if in_place else None
    try:
        for _ in looks(every_s, rounds):
            if region is None:
                console.print(drawn(None))
            else:
                region.show(drawn(console.height))
    finally:
        if region is not None:
            region.release()
