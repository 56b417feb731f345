"""Jobs with aggregates of their own: beside the logs, on the way, and at the master."""

from __future__ import annotations

from memory_fleet import WALL_MS, events

SPENDERS = """
    import elf

    class Top(elf.Aggregate):
        def lift(self, user, amount):
            return {user: amount}

        def combine(self, one, other):
            return {user: one.get(user, 0) + other.get(user, 0) for user in {**one, **other}}

        def lower(self, state):
            return sorted(state, key=lambda user: (-state[user], user))[:2]

    class Spenders(elf.Job):
        aggregates = {"TOP_SPENDERS": Top}
        query = "SELECT store, TOP_SPENDERS(user, amount) AS top, COUNT(*) AS n FROM web GROUP BY store WINDOWING 1 SECOND"
"""


def test_quick(fleet_of) -> None:
    fleet = fleet_of()
    key = fleet.submit_code(SPENDERS)
    fleet.catch_up()
    for number in range(3):
        fleet.insert(number, events("x", "y", "x", at_ms=WALL_MS + 1200, store=["a", "b", "a"], user=["ann", "bob", f"u{number}"], amount=[5, 2, number]))
    for number in range(3):
        fleet.insert(number, events("x", at_ms=WALL_MS + 8500, store=["a"], user=["late"], amount=[1]))
    fleet.work()
    print(fleet.results, fleet.log(key))
    assert 0
