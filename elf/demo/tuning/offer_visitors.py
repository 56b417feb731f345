"""Visitors who click on offers: often where the prominence is as they like it best, seldom where it is not.

One thread asks the servers in turn, at a fixed rate, over a connection to each; a slow server slows the visitors down.
"""

import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode

_USERS = 5_000
_TIMEOUT_S = 5.0
_PROGRESS_S = 0.2
_BACKLOG_S = 0.25


@dataclass(frozen=True, slots=True)
class Taste:
    """The share of visits with a click, by the prominence of the offer: `seldom`, and most at `liked`."""

    liked: float
    width: float = 0.35
    seldom: float = 0.08
    often: float = 0.6

    def clicks(self, prominence: float) -> float:
        """The true share of clicks.

        >>> round(Taste(0.7).clicks(0.7), 2), round(Taste(0.7).clicks(0.2), 2)
        (0.6, 0.15)
        """
        return self.seldom + (self.often - self.seldom) * math.exp(-(((prominence - self.liked) / self.width) ** 2))

    def gained(self, before: float, after: float) -> float:
        """The share of what could be gained by changing the prominence."""
        return (self.clicks(after) - self.clicks(before)) / (self.clicks(self.liked) - self.clicks(before))


@dataclass(slots=True)
class VisitCounts:
    """Visits and clicks so far: all of them, and those of each second by slice."""

    seconds: float
    elapsed_s: float = 0.0
    visits: int = 0
    errors: int = 0
    by_second: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def add(self, slice_: str, value: int) -> None:
        counted = self.by_second.setdefault((int(self.elapsed_s), slice_), [0, 0])
        counted[0] += 1
        counted[1] += value
        self.visits += 1

    def share(self, slice_: str, since_s: float, until_s: float) -> float | None:
        """Clicks over visits of a slice between two seconds; None without visits."""
        found = [self.by_second.get((second, slice_), [0, 0]) for second in range(int(since_s), int(until_s))]
        visits = sum(one[0] for one in found)
        return sum(one[1] for one in found) / visits if visits else None


class OfferVisitors:
    """Asks for offers, and tells the server with the next question whether there was a click."""

    def __init__(self, ports: Sequence[int], taste: Taste, *, rate: float, seed: int = 0) -> None:
        self._taste = taste
        self._rate = rate
        self._draws = random.Random(seed)
        self._connections = [HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S) for port in ports]
        self._last: list[dict[str, Any] | None] = [None] * len(ports)

    def run(self, seconds: float, progress: Callable[[VisitCounts], object]) -> VisitCounts:
        """Visits for so long; `progress` is called a few times a second, and may raise to end it."""
        counts = VisitCounts(seconds)
        began = last = reported = time.monotonic()
        due = 0.0
        try:
            while (now := time.monotonic()) - began < seconds:
                counts.elapsed_s = now - began
                due = min(due + (now - last) * self._rate, self._rate * _BACKLOG_S)
                last = now
                while due >= 1:
                    due -= 1
                    self._visit(counts)
                if now - reported >= _PROGRESS_S:
                    reported = now
                    progress(counts)
                time.sleep(0.002)
        finally:
            for connection in self._connections:
                connection.close()
        progress(counts)
        return counts

    def _visit(self, counts: VisitCounts) -> None:
        number = self._draws.randrange(len(self._connections))
        connection, became = self._connections[number], self._last[number]
        form = urlencode(became) if became is not None else ""
        try:
            connection.request("POST", "/offer", form, {"Cookie": f"user={self._draws.randrange(_USERS)}"})
            offer = json.loads(connection.getresponse().read())
            clicked = self._draws.random() < self._taste.clicks(float(offer["prominence"]))
        except (OSError, HTTPException, ValueError, KeyError):
            connection.close()
            counts.errors += 1
            self._last[number] = None
            return
        if became is not None:
            counts.add(became["slice"], became["value"])
        self._last[number] = {**offer, "value": int(clicked)}
