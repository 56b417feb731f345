"""Latency models of simulated messages."""

from math import hypot, isfinite
from pathlib import Path
from typing import Protocol

from overlay.core.random_source import RandomSource
from overlay.wire.peer import Peer

MATRIX_PLACES_MAX = 4096
DELAY_MIN_S = 0.0001


class Latency(Protocol):
    """A model of the delay of messages from one peer to another, in seconds."""

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        """Return the delay of the next message on this link."""


class UniformLatency:
    """Delays drawn uniformly from `low_s` to `high_s`, independent of the link."""

    def __init__(self, random: RandomSource, low_s: float = 0.001, high_s: float = 0.010) -> None:
        self._random = random
        self._low_s = low_s
        self._width_s = high_s - low_s

    def delay_s(self, sender: Peer, receiver: Peer) -> float:  # noqa: ARG002 - the model knows no places
        """Return a random delay."""
        return self._low_s + self._width_s * self._random.random()


class PlaneLatency:
    """Peers are random points in a square whose side takes `side_s` to cross; every message takes up to 10% longer.

    A peer gets its position on first use.
    """

    def __init__(self, random: RandomSource, side_s: float = 0.050) -> None:
        self._random = random
        self._side_s = side_s
        self._places: dict[int, tuple[float, float]] = {}

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        """Return the delay of the straight line, at least a hundredth of `side_s`."""
        here, there = self.place(sender), self.place(receiver)
        length = max(0.01, hypot(here[0] - there[0], here[1] - there[1]))
        return self._side_s * length * (1 + 0.1 * self._random.random())

    def place(self, peer: Peer) -> tuple[float, float]:
        """Return a peer's position in the square, each coordinate from 0 to 1."""
        if peer.node_id not in self._places:
            self._places[peer.node_id] = (self._random.random(), self._random.random())
        return self._places[peer.node_id]


class LatencyMatrixError(ValueError):
    """A text is not a latency matrix; names the line and the fault."""


class MatrixLatency:
    """Measured one-way delays between places; every message takes up to 10% longer.

    Peers are assigned to places on first use: each place gets one peer, then each a second one, and so on.

    The text has a line for each place with the milliseconds to every place, separated by commas or blanks; empty lines
    and everything after a # are ignored. No message takes less than a tenth of a millisecond.

    >>> import random
    >>> matrix = MatrixLatency("0 40\\n60 0", random.Random(1))
    >>> peers = Peer(1, "a"), Peer(2, "b"), Peer(3, "in the place of a")
    >>> [round(matrix.delay_s(peers[0], peer), 2) for peer in peers], round(matrix.delay_s(peers[1], peers[2]), 2)
    ([0.0, 0.04, 0.0], 0.06)
    """

    def __init__(self, text: str, random: RandomSource) -> None:
        self._delays_s = _read_matrix(text)
        self._random = random
        self._places: dict[int, int] = {}

    @classmethod
    def from_file(cls, path: Path, random: RandomSource) -> "MatrixLatency":
        """Read the matrix from a file; OSError, or LatencyMatrixError when the file contains none."""
        try:
            return cls(path.read_text(encoding="utf-8"), random)
        except (LatencyMatrixError, UnicodeDecodeError) as error:
            raise LatencyMatrixError(f"{path}: {error}") from error

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        """Return the delay between the two places."""
        delay_s = self._delays_s[self._place(sender)][self._place(receiver)]
        return delay_s * (1 + 0.1 * self._random.random())

    def _place(self, peer: Peer) -> int:
        place = self._places.get(peer.node_id)
        if place is None:
            place = self._places[peer.node_id] = len(self._places) % len(self._delays_s)
        return place


def _read_matrix(text: str) -> list[list[float]]:
    lines = [(number, line.split("#")[0]) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in lines if line.strip()]
    if not 0 < len(lines) <= MATRIX_PLACES_MAX:
        raise LatencyMatrixError(f"a matrix has 1 to {MATRIX_PLACES_MAX} lines of delays, not {len(lines)}")
    return [_read_row(number, line, len(lines)) for number, line in lines]


def _read_row(number: int, line: str, places: int) -> list[float]:
    cells = line.replace(",", " ").split()
    if len(cells) != places:
        raise LatencyMatrixError(f"line {number}: {len(cells)} delays, while there are {places} places")
    return [_read_delay_s(number, cell) for cell in cells]


def _read_delay_s(number: int, cell: str) -> float:
    try:
        delay_ms = float(cell)
    except ValueError:
        delay_ms = -1.0
    if not (isfinite(delay_ms) and delay_ms >= 0):
        raise LatencyMatrixError(f"line {number}: {cell[:40]!r} is not a number of milliseconds")
    return max(DELAY_MIN_S, delay_ms / 1000)
