"""Jobs of several stages: queries with trees of their own that read each other, and live and die with their job."""

from __future__ import annotations

import polars as pl
from memory_fleet import WALL_MS
from program_fleet import Make, ProgramFleet

from agent import StreamOptions
from agent.parsing import Parsed
from overlay import Id

STREAMS = {"likes": StreamOptions(), "buys": StreamOptions()}
BOTH = """
    import elf

    class Wanted(elf.Job):
        stages = {
            "liked": "SELECT product, COUNT(*) AS n FROM likes WHERE stars > 2 GROUP BY product WINDOWING 1 SECOND",
            "bought": "SELECT product, COUNT(*) AS n FROM buys GROUP BY product WINDOWING 1 SECOND",
        }
        query = "SELECT product, SUM(n) AS likes FROM app('liked') GROUP BY product WINDOWING 2 SECONDS"

        def on_result(self, window):
            for row in window.rows:
                self.log(f"{window.stage or 'all'} {row['product']} {row.get('n', row.get('likes'))}")
"""


def put(fleet: ProgramFleet, stream: str, second: float, *rows: tuple[str, int]) -> None:
    """Events of one stream, the same on all agents."""
    products, stars = zip(*rows, strict=True)
    at_ms = WALL_MS + int(second * 1000)
    frame = pl.DataFrame({"product": products, "stars": stars, "@time": [at_ms] * len(rows)})
    for agent in fleet.agents:
        for feed in agent.feeds():
            if feed.stream == stream:
                agent.insert(feed.key, Parsed((frame,), malformed=0), fleet.now, fleet.wall_ms)
    fleet.settle()


def said(fleet: ProgramFleet, key: Id) -> list[str]:
    return [text for _, text in fleet.log(key)]


def test_a_job_gets_the_windows_of_its_stages(fleet_of: Make) -> None:
    fleet = fleet_of(streams=STREAMS)
    key = fleet.submit_code(BOTH)
    assert sorted(job.name for job in fleet.agents[1].jobs()) == ["wanted", "wanted.bought", "wanted.liked"]
    fleet.wait_long(2.0)
    fleet.catch_up()
    for second in (4.2, 5.2):
        put(fleet, "likes", second, ("a", 5), ("a", 1), ("b", 3))
        put(fleet, "buys", second, ("b", 0), ("c", 0))
    for stream in STREAMS:
        put(fleet, stream, 20.0, ("z", 0))
    fleet.work()
    fleet.wait_long(5.0)
    print(said(fleet, key))
