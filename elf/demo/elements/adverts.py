"""Advertisements served beside search results, and clicks on them, which another server logs some minutes later. A
robot looks at far more than people do, for a minute of every hour, each time as another user.
"""

import heapq
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

QUERIES = {
    "running shoes": ("swift", "marathon", "trail"),
    "coffee": ("roaster", "espresso", "beans"),
    "cheap flights": ("skyline", "lastminute", "charter"),
}
"""Searches of people, and the ads they may see, the best one first."""
BOT_QUERY, BOT_AD = "replica watches", "gold"
"""Search of a robot, and of nobody else; it never clicks."""
BOT_SERVES, BOT_STEP_MS, BOT_AT_MS = 80, 600, 20 * 60_000
"""Serves to the robot in each hour, the time from one to the next, and that of the first. All are within a minute."""
HOUR_MS = 3_600_000
PEOPLE = 5_000
CLICK_DELAY_MAX_MS = 25 * 60_000
"""Upper bound on the time from a serve to its click: within the job's half hour."""
_RATES = (0.30, 0.15, 0.06)


@dataclass(slots=True)
class AdTraffic:
    """Serves and clicks in the order of their times. `dice` decides everything."""

    dice: random.Random
    _number: int = 0
    _clicks: list[tuple[int, str, str]] = field(default_factory=list)
    _robot_ms: int | None = None

    def serves_until(self, times: Iterable[int], until_ms: int) -> list[bytes]:
        """The lines of a server that shows ads: to people at these times, and to the robot until a time."""
        people = [(time_ms, False) for time_ms in times]
        robot = [(time_ms, True) for time_ms in self._robot_times(people[0][0] if people else until_ms, until_ms)]
        return [self._serve(time_ms, is_robot=is_robot) for time_ms, is_robot in sorted(people + robot)]

    def clicks_until(self, time_ms: int) -> list[bytes]:
        """The lines of clicks whose time has come."""
        due = []
        while self._clicks and self._clicks[0][0] <= time_ms:
            at_ms, serve, ad = heapq.heappop(self._clicks)
            due.append(_line(time=at_ms, serve=serve, ad=ad))
        return due

    def _robot_times(self, since_ms: int, until_ms: int) -> list[int]:
        """The times of the robot from where it is until another; it begins in the first whole hour."""
        if self._robot_ms is None:
            self._robot_ms = (since_ms // HOUR_MS + 1) * HOUR_MS + BOT_AT_MS
        times = []
        while self._robot_ms <= until_ms:
            times.append(self._robot_ms)
            self._robot_ms += BOT_STEP_MS
            if self._robot_ms % HOUR_MS >= BOT_AT_MS + BOT_SERVES * BOT_STEP_MS:
                self._robot_ms = (self._robot_ms // HOUR_MS + 1) * HOUR_MS + BOT_AT_MS
        return times

    def _serve(self, time_ms: int, *, is_robot: bool) -> bytes:
        """A line of a serve; its click, if there will be one, waits for its time."""
        dice = self.dice
        self._number += 1
        serve = f"{self._number:x}-{dice.getrandbits(32):08x}"
        if is_robot:
            return _line(time=time_ms, serve=serve, query=BOT_QUERY, ad=BOT_AD, user=f"bot-{time_ms // HOUR_MS}")
        query, place = dice.choice(tuple(QUERIES)), dice.randrange(len(_RATES))
        ad = QUERIES[query][place]
        if dice.random() < _RATES[place]:
            heapq.heappush(self._clicks, (time_ms + dice.randrange(2_000, CLICK_DELAY_MAX_MS), serve, ad))
        return _line(time=time_ms, serve=serve, query=query, ad=ad, user=f"user-{dice.randrange(PEOPLE)}")


def _line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"
