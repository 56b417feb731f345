"""Jobs that ask each other: route and deliver, ask, subscribe."""

from __future__ import annotations

from program_fleet import TEN_LINES, Make, feed

ASKED = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Best:
        than: int

    @elf.message
    @dataclass(frozen=True)
    class Product:
        name: str

    class Asked(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"

        def __init__(self):
            self.rows = []

        def on_result(self, window):
            self.rows = window.rows

        def deliver(self, app, message):
            best = max(self.rows, key=lambda row: row["n"], default=None)
            if best is None or best["n"] < message.than:
                raise elf.JobError("has nothing that good")
            return Product(best["product"])
"""
ASKING = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class Best:
        than: int

    @elf.message
    @dataclass(frozen=True)
    class Product:
        name: str

    class Asking(elf.Job):
        query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
        timer_s = 5.0

        def on_timer(self):
            if not self.is_root:
                return
            for than in (2, 2000):
                try:
                    self.log(f"best: {self.route('asked', Best(than)).name}")
                except elf.NoAnswerError as error:
                    self.log(str(error))
            (window,) = self.ask("asked")
            self.log(f"{window.rows[0]['product']} {window.is_complete}")
            try:
                self.ask("nothing")
            except elf.NoAnswerError as error:
                self.log(str(error))
"""


def test_a_job_routes_messages_to_another_and_asks_for_its_windows(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(ASKED)
    asking = fleet.submit_code(ASKING)
    fleet.catch_up()
    feed(fleet, 1.2, "a", "b", "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    fleet.wait_long(6.0)
    assert [text for _, text in fleet.log(asking)] == [
        "best: a", "asked has nothing that good", "a True",
        "there is no job nothing in this fleet: elf jobs lists those there are",
    ]  # fmt: skip


def test_a_job_that_takes_no_messages_says_so(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(TEN_LINES.replace("Counts", "Asked"))
    asking = fleet.submit_code(ASKING.replace('(window,) = self.ask("asked")', "return"))
    fleet.wait_long(6.0)
    assert {text for _, text in fleet.log(asking)} == {"asked takes no messages: its code has no deliver"}


SUBSCRIBER = """
    import elf

    class Subscriber(elf.Job):
        query = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"
        timer_s = 0.5
        is_subscribed = False

        def on_timer(self):
            if self.is_root and not self.is_subscribed:
                self.subscribe("counts")
                self.is_subscribed = True

        def on_result(self, window):
            self.log(f"{window.app} {len(window.rows)}")
"""


def test_a_job_gets_the_windows_of_one_it_has_subscribed_to(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(TEN_LINES)
    key = fleet.submit_code(SUBSCRIBER)
    fleet.wait_long(2.0)
    fleet.catch_up()
    feed(fleet, 4.2, "a", "b", "a")
    feed(fleet, 12.5, "b")
    fleet.work()
    fleet.wait_long(3.0)
    assert sorted(text for _, text in fleet.log(key)) == ["counts 2", "subscriber 1"]
