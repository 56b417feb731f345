"""Lines that are parsed natively and exactly, for tests that both ways mean the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl

from agent.parsing.formats import Parsed


def rows_of(parsed: Parsed) -> tuple[list[str], int]:
    """The events, each as text with the types of its values, in an order of their own; and the malformed lines."""
    rows = []
    for frame in parsed.frames:
        whole = frame if "@coerced" in frame.columns else frame.with_columns(pl.lit(0).alias("@coerced"))
        rows += [repr(sorted(row.items())) for row in whole.iter_rows(named=True)]
    return sorted(rows), parsed.malformed


def mutated(chance: random.Random, text: str, pieces: Sequence[bytes]) -> bytes:
    """A line with some bytes flipped, dropped or doubled, or pieces put in."""
    line = bytearray(text.encode() or b" ")
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(line) or 1)
        match chance.randrange(4):
            case 0:
                line[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del line[place : place + chance.randrange(1, 5)]
            case 2:
                line[place:place] = line[place : place + chance.randrange(1, 9)]
            case _:
                line[place:place] = chance.choice(pieces)
    return bytes(line).replace(b"\n", b" ")
