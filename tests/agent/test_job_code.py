"""Jobs written in Python, over agents in memory: what their callbacks see, and what comes of what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from memory_fleet import WALL_MS, events
from program_fleet import Person, ProgramFleet

from agent import SubmitRefused

Make = Callable[..., ProgramFleet]


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Make]:
    made: list[ProgramFleet] = []

    def make(size: int = 3, **options: object) -> ProgramFleet:
        made.append(ProgramFleet(tmp_path / str(len(made)), size, **options))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()


TEN_LINES = """
    import elf

    class Counts(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"

        def on_result(self, window):
            for row in window.rows:
                self.log(f"{row['product']}: {row['n']}")
"""


def feed(fleet: ProgramFleet, second: float, *products: str) -> None:
    for number in range(len(fleet.agents)):
        fleet.insert(number, events(*products, at_ms=WALL_MS + int(second * 1000)))
    fleet.settle()


def test_the_master_of_a_job_gets_its_windows(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(TEN_LINES)
    fleet.catch_up()
    feed(fleet, 1.2, "a", "b", "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    assert fleet.results[0].rows[0] == {"product": "a", "n": 6}
    assert [text for _, text in fleet.log(key)] == ["a: 6", "b: 3"]


FIGURE_7 = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class TopK:
        products: list[str]

    @elf.message
    @dataclass(frozen=True)
    class Update:
        pane: int

    class MicroPromotion(elf.Job):
        query = "SELECT product, COUNT(*) AS clicks FROM web GROUP BY product ORDER BY clicks DESC LIMIT 2"
        drives = True
        timer_s = 2.0

        def __init__(self):
            self.topk = []
            self.products = set()

        def on_timer(self):
            if self.is_root:
                self.multicast(TopK(self.topk))
                self.multicast(Update(self.now_ms))

        def on_multicast(self, app, message):
            if isinstance(message, TopK):
                for product in message.products:
                    if product in self.products:
                        self.log(f"discount on {product}")
            elif isinstance(message, Update):
                paos = self.cbt.flush()
                self.products = {row["product"] for row in paos.rows()}
                self.send_to(self.parent, paos, message.pane)
                self.cbt.empty()

        def on_result(self, window):
            self.topk = [row["product"] for row in window.rows]
"""


def test_figure_7_line_for_line(fleet_of: Make) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(FIGURE_7)
    feed(fleet, 0.5, "a", "b", "b", "c", "c", "c")
    fleet.wait_long(2.5)
    assert [[(row["product"], row["clicks"]) for row in one.rows] for one in fleet.results] == [[("c", 9), ("b", 6)]]
    feed(fleet, 2.7, "b", "d")
    fleet.wait_long(2.0)
    assert [(row["product"], row["clicks"]) for row in fleet.results[1].rows] == [("b", 3), ("d", 3)]
    assert fleet.results[1].contributors == 3
    said = fleet.log(key)
    assert sorted(said) == sorted((f"agent-{n}", f"discount on {p}") for n in range(3) for p in ("b", "c"))


def test_a_job_of_somebody_who_is_not_trusted_does_not_start(fleet_of: Make) -> None:
    fleet = fleet_of()
    stranger = Person(fleet_of().authority, "mallory")
    fleet.submit_code(TEN_LINES, by=stranger)
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "authority" in refused.reason
