"""Makes the keys that are counted: 13 lowercase letters, seeded, so that all contenders count the same.

Like those of the load generator that comes with the paper's authors' own tree: the first letters spell the key's
number, and one of 10,000 random strings fills it up.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.contender import Answer

KEY_BYTES = 13
FILLERS = 10_000
ZIPF_EXPONENT = 1.2
ZIPF_RANKS = 10**8
_LETTERS = 26


@dataclass(frozen=True, slots=True)
class KeySet:
    """A way of drawing keys: uniformly from so many, or by their rank from a Zipf distribution if None."""

    name: str
    unique: int | None

    def draw(self, inserts: int, random: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of the keys to insert, from 0 without a gap.

        Uniform ones are drawn so that every key is there: each once, the others at random, all shuffled.
        """
        if self.unique is None:
            return _zipf(inserts, random)
        numbers = np.concatenate([np.arange(self.unique), random.integers(0, self.unique, inserts - self.unique)])
        random.shuffle(numbers)
        return numbers


def write_keys(path: Path, keys: KeySet, inserts: int, *, seed: int = 11) -> Answer:
    """Write the keys of so many inserts, one after the other; yields what counting them must yield."""
    random = np.random.default_rng(seed)
    numbers = keys.draw(inserts, random)
    counts = np.bincount(numbers)
    path.write_bytes(spelled(len(counts), random)[numbers].tobytes())
    return Answer(len(counts), inserts, int((counts * counts).sum()))


def read_keys(path: Path) -> NDArray[np.bytes_]:
    """All keys of a file, as strings of 13 bytes."""
    return np.frombuffer(path.read_bytes(), dtype=f"S{KEY_BYTES}")


def _zipf(inserts: int, random: np.random.Generator) -> NDArray[np.int64]:
    ranks = np.empty(0, np.int64)
    while len(ranks) < inserts:
        drawn = random.zipf(ZIPF_EXPONENT, inserts)
        ranks = np.concatenate([ranks, drawn[drawn <= ZIPF_RANKS]])
    numbers: NDArray[np.int64] = np.unique(ranks[:inserts], return_inverse=True)[1]
    return numbers


def spelled(unique: int, random: np.random.Generator) -> NDArray[np.uint8]:
    """One row of 13 ASCII letters for each number."""
    letters = 1
    while _LETTERS**letters < unique:
        letters += 1
    number = np.arange(unique)
    digits = [number // _LETTERS**place % _LETTERS for place in range(letters)]
    fillers = random.integers(0, _LETTERS, (FILLERS, KEY_BYTES - letters))[random.integers(0, FILLERS, unique)]
    return (np.column_stack([*digits, fillers]) + ord("a")).astype(np.uint8)
