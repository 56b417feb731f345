"""Jobs with aggregates of their own: beside the logs, on the way, and at the master."""

from __future__ import annotations

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
