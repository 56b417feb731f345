"""A running count of events by key, with a row for each event; clients send the events."""

import elf

DECLARED = True


@elf.event(guaranteed=False)
class Hit:
    key: str


@elf.event(guaranteed=False)
class Update:
    key: str
    n: int


class Count(elf.PE):
    keys = {Hit: "key"}
    n: int = 0

    def process_event(self, hit):
        self.n += 1
        self.emit(Update(hit.key, self.n))


Counted = elf.aggregate(Hit, key="key", value="COUNT(*) AS n")


class CountKeys(elf.Job):
    elements = [Counted] if DECLARED else [Count]
    query = f"SELECT COUNT(*) AS updates, SUM(n) AS total FROM {'Counted' if DECLARED else 'Update'} WINDOWING 1 SECOND"
