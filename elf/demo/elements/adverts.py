"""Advertisements served beside search results, and clicks on them, which another server logs some minutes later. One
user is a robot, who looks at far more than people do.
"""

import heapq
import json
import random
from dataclasses import dataclass, field

QUERIES = {
    "running shoes": ("swift", "marathon", "trail"),
    "coffee": ("roaster", "espresso", "beans"),
    "cheap flights": ("skyline", "lastminute", "charter"),
    "guitar": ("strings", "lessons", "amps"),
    "garden chairs": ("teak", "rattan", "outlet"),
    "headphones": ("studio", "wireless", "budget"),
}
"""Searches of people, and the ads they may see, the best one first."""
BOT_QUERY = "replica watches"
"""Search of robots, and of nobody else."""
BOT_ADS = ("gold", "steel")
PEOPLE = 20_000
BOT = "bot-1"
BOT_SHARE = 0.6
"""The part of all serves that a robot sees: more than 30 a minute."""
CLICK_DELAY_MAX_MS = 25 * 60_000
"""Upper bound on the time from a serve to its click: within the job's half hour."""
_RATES = (0.09, 0.05, 0.02)


@dataclass(slots=True)
class AdTraffic:
    """Serves and clicks in the order of their times. `dice` decides everything."""

    dice: random.Random
    _number: int = 0
    _clicks: list[tuple[int, str, str]] = field(default_factory=list)

    def serve(self, time_ms: int) -> bytes:
        """A line of a server that shows ads; its click, if there will be one, waits for its time."""
        dice = self.dice
        self._number += 1
        serve = f"{self._number:x}-{dice.getrandbits(32):08x}"
        if dice.random() < BOT_SHARE:
            user, query, ad = BOT, BOT_QUERY, dice.choice(BOT_ADS)
        else:
            user, query = f"user-{dice.randrange(PEOPLE)}", dice.choice(tuple(QUERIES))
            place = dice.randrange(len(_RATES))
            ad = QUERIES[query][place]
            if dice.random() < _RATES[place]:
                heapq.heappush(self._clicks, (time_ms + dice.randrange(2_000, CLICK_DELAY_MAX_MS), serve, ad))
        return _line(time=time_ms, serve=serve, query=query, ad=ad, user=user)

    def clicks_until(self, time_ms: int) -> list[bytes]:
        """The lines of clicks whose time has come."""
        due = []
        while self._clicks and self._clicks[0][0] <= time_ms:
            at_ms, serve, ad = heapq.heappop(self._clicks)
            due.append(_line(time=at_ms, serve=serve, ad=ad))
        return due


def _line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"
