"""Every agent has a row for each of many keys; the master has all of them fetch their snapshots at the same moment."""

import json
import time
from dataclasses import dataclass

import elf

QUERY = "SELECT product, SUM(clicks) AS clicks FROM web GROUP BY product"
KEYS = 1_000
COUNT = 20
PERIOD_S = 1.0
"""In every second period rows are inserted, in those between snapshots are fetched. All jobs' masters keep in step."""
AHEAD_S = 0.3


@elf.message
@dataclass(frozen=True)
class Fill:
    """Insert a row for each key."""


@elf.message
@dataclass(frozen=True)
class Fetch:
    """Send a snapshot, as that of this pane (epoch ms)."""

    pane: int


@elf.message
@dataclass(frozen=True)
class Report:
    """Say how it went."""


class Batches(elf.Job):
    query = QUERY
    drives = True
    timer_s = 0.25

    def __init__(self) -> None:
        self.pane = 0
        self.fetches = 0
        self.fetched: dict[int, float] = {}
        self.arrived: dict[int, tuple[float, int, int]] = {}

    def on_timer(self) -> None:
        if not self.is_root:
            return
        now = time.time()
        period = int(now / PERIOD_S) + 1
        if period * PERIOD_S - now > AHEAD_S:
            return
        time.sleep(period * PERIOD_S - now)
        if period % 2:
            self.multicast(Fill())
        elif self.fetches < COUNT:
            self.fetches += 1
            self.pane = max(self.now_ms, self.pane + 1)
            self.multicast(Fetch(self.pane))
        elif self.fetches == COUNT:
            self.fetches += 1
            self.multicast(Report())

    def on_multicast(self, app: str, message: object) -> None:
        if isinstance(message, Fill):
            self.cbt.insert(*({"product": f"product {key}", "clicks": key % 7 + 1} for key in range(KEYS)))
        elif isinstance(message, Fetch):
            self.fetched[message.pane] = time.time()
            self.send_to(self.parent, self.cbt.flush(), message.pane)
            self.cbt.empty()
        elif isinstance(message, Report):
            self.log(json.dumps({"fetched": self.fetched, "arrived": self.arrived}))

    def on_result(self, window: elf.Window) -> None:
        self.arrived[window.end_ms] = (time.time(), len(window.rows), window.contributors)
