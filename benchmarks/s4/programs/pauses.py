"""Elements that know how long they have been without an event: what a death or a hand-over of their host costs them."""

import time

import elf

PRODUCTS = ("Angry Birds Season 0", "Angry Birds Season 1")
PAD_BYTES = 0
"""Size of the state that is beside each of them, and does not change."""
LEAST_MS = 100
KEPT = 20

Line = elf.source(f"SELECT product FROM web WHERE product IN {PRODUCTS}")


@elf.event
class Beat:
    product: str


@elf.event
class First:
    product: str


class Pauses(elf.PE):
    """`pauses`: the last ones, by the wall clock's time of their end, and how long they were (ms)."""

    keys = {Line: "product"}
    last_ms: int = 0
    pauses: list[list[int]] = []

    def process_event(self, line):
        now_ms = time.time_ns() // 1_000_000
        if not self.last_ms:
            self.emit(First(line.product))
        elif now_ms - self.last_ms > LEAST_MS:
            self.pauses = [*self.pauses[1 - KEPT :], [now_ms, now_ms - self.last_ms]]
        self.last_ms = now_ms
        self.emit(Beat(line.product))


class Ballast(elf.PE):
    """State on the same logical node."""

    keys = {First: "product"}
    pad: str = ""

    def process_event(self, first):
        self.pad = "x" * PAD_BYTES


class PausesJob(elf.Job):
    elements = [Pauses, Ballast]
    query = "SELECT COUNT(*) AS beats FROM Beat WINDOWING 1 SECOND"
