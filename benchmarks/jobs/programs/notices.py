"""The master says something to everybody, again and again; every agent tells how long each word took to come."""

import json
import time
from dataclasses import dataclass

import elf

COUNT = 20


@elf.message
@dataclass(frozen=True)
class Notice:
    number: int
    said_at: float


class Notices(elf.Job):
    query = "SELECT product, SUM(clicks_count) AS clicks FROM web GROUP BY product WINDOWING 1 SECOND"
    timer_s = 0.5

    def __init__(self) -> None:
        self.said = 0
        self.took_s: dict[int, float] = {}

    def on_timer(self) -> None:
        if self.is_root:
            self.said += 1
            self.multicast(Notice(self.said, time.time()))

    def on_multicast(self, app: str, notice: Notice) -> None:
        self.took_s[notice.number] = time.time() - notice.said_at
        if len(self.took_s) == COUNT:
            self.log(json.dumps(self.took_s))
