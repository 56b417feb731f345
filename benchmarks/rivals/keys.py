"""The keys that are counted, as files that every contender reads into its own form before the clock starts.

Standard library only, since the environments of all contenders read them.
"""

import random
import sys
from array import array
from pathlib import Path

KEYS = 100_000
_SEED = 26
_CODE = "I"


def write_keys(folder: Path, events: int, shares: int, keys: int = KEYS) -> None:
    """Draws the key of each event, all keys alike, and deals them to `shares` files."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(_SEED)
    numbers = array(_CODE, (chance.randrange(keys) for _ in range(events)))
    for share in range(shares):
        (folder / f"{share:02}.keys").write_bytes(_little_endian(numbers[share::shares]).tobytes())


def read_keys(path: str | Path) -> list[str]:
    """The keys in one file, as text of ten characters."""
    numbers = array(_CODE)
    numbers.frombytes(Path(path).read_bytes())
    return [f"key-{number:06}" for number in _little_endian(numbers)]


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = array(_CODE, numbers)
        numbers.byteswap()
    return numbers
