"""An element that waits for each event, as one does that asks another machine."""

import time

import elf

GROUPING = "fish"
WORKERS = 16
WAIT_S = 0.004


@elf.event(guaranteed=False)
class Hit:
    key: str


@elf.event(guaranteed=False)
class Done:
    key: str


class Wait(elf.PE):
    keys = {Hit: "key"}
    grouping = GROUPING
    workers = WORKERS

    def process_event(self, hit):
        time.sleep(WAIT_S)
        self.emit(Done(hit.key))


class Waits(elf.Job):
    elements = [Wait]
    query = "SELECT COUNT(*) AS n FROM Done WINDOWING 1 SECOND"
