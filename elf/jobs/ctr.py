"""The click-through rate of each query and ad over the last 24 hours, every hour (S4, section IV.A and figure 5).

Serves and clicks are logged on different servers, and meet at the element of their serve and ad. Users who look at more
than 30 ads within a minute are robots: an element for each user leaves out what they see beyond that.
"""

import elf

Serve = elf.source("SELECT serve, query, ad, user FROM serves", guaranteed=False, shed="serve")
Click = elf.source("SELECT serve, ad FROM clicks", guaranteed=False, shed="serve")
Seen = elf.join(Serve, Click, on=("serve", "ad"), within_s=1800)  # a row per serve, `clicked` 0 or 1


@elf.event(guaranteed=False)
class Kept:
    query: str
    ad: str
    clicked: int


class BotFilter(elf.PE):
    keys, ttl_s = {Seen: "user"}, 3600
    last: list[int] = []

    def process_event(self, seen):
        self.last = [t for t in self.last if t > seen.time_ms - 60_000] + [seen.time_ms]
        if len(self.last) <= 30:
            self.emit(Kept(seen.query, seen.ad, seen.clicked))


class Ctr(elf.Job):
    elements = [
        Seen,
        BotFilter,
        elf.aggregate(
            Kept,
            key=("query", "ad"),
            window="24 HOURS EVERY 1 HOUR",
            value="COUNT(*) AS serves, AVG(clicked) AS ctr",
        ),
    ]
