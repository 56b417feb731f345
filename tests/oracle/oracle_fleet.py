"""Simulated agents that remember, whose events all have a number of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
from recording_client import client_of
from remembering_fleet import RememberingFleet
from simulated_fleet import Reader, Server, key_of

from agent.parsing import Parsed
from agent.runtime.model.panes import FIRST_PANE

JOB = "one"
STEP_SLACK_MS = 3000
"""Events that are logged so shortly before a step of their server's clock may be read after it, and be late."""
_SCHEMA = {"@time": pl.Int64, "product": pl.String, "agent": pl.String, "number": pl.Int64}


@dataclass(frozen=True)
class Logged:
    """An event's way into a log: the true time, and whether it was logged soon, by a clock that had not stepped."""

    true_ms: int
    is_prompt: bool


class OracleFleet(RememberingFleet):
    """Agents with disks, and a follower without logs that is far from every root, so that little happens to it."""

    def __init__(self, seed: int, late: float) -> None:
        super().__init__(seed, disks=True)
        self.late = late
        self.logged: dict[str, list[Logged]] = {}
        self.stepped_ms: dict[str, int] = {}
        """Agent → true time up to which its clock is suspect."""
        self.steps_ms: dict[str, list[int]] = {}
        """Agent → true times at which its clock stepped."""
        self.read_from: dict[str, list[int]] = {}
        """Agent → the numbers of the events where its readings began."""
        self.has_disk_trouble: set[str] = set()
        self.follower = self.add(node_id=key_of(JOB) ^ (1 << 127))
        self.deaths: dict[str, list[int]] = {}
        """Agent → true times at which it died."""

    # Events.

    def _parsed(self, server: Server, position: int, events: list[tuple[int, str]]) -> Parsed:
        times, products = [time for time, _ in events], [product for _, product in events]
        numbers = range(position, position + len(events))
        columns = {"@time": times, "product": products, "agent": [server.name] * len(events), "number": list(numbers)}
        return Parsed((pl.DataFrame(columns, schema=_SCHEMA),), malformed=0)

    def _read_on(self, server: Server, reader: Reader) -> None:
        begins = reader.position < 0 and self.now >= reader.opens_at
        before = len(server.log)
        super()._read_on(server, reader)
        if begins:
            start = reader.position if reader.feed.start == "remembered" else before
            self.read_from.setdefault(server.name, []).append(start)

    def store(self, server: Server) -> None:
        if server.name not in self.has_disk_trouble:
            super().store(server)

    def write(self, server: Server, count: int, *, late_ms: int = 0) -> None:
        late_ms = late_ms or (self.random.randint(1500, 5000) if self.random.random() < self.late else 0)
        super().write(server, count, late_ms=late_ms)
        is_prompt = not late_ms and self.wall_ms > self.stepped_ms.get(server.name, FIRST_PANE)
        self.logged.setdefault(server.name, []).extend([Logged(self.wall_ms, is_prompt)] * count)

    # Agents.

    def crash(self, server: Server) -> None:
        super().crash(server)
        self.deaths.setdefault(server.name, []).append(self.wall_ms)

    def lose_disk(self, server: Server) -> None:
        """All that an agent, which is not up, has ever stored."""
        assert server.disk is not None
        server.disk.durable.clear()
        self.positions.pop(server.name, None)
        self.leads_ms.pop(server.name, None)

    def follow(self, after: int | None) -> None:
        """The follower follows the job; a new process goes on where the one before it was."""
        client_of(self.follower.agent).follow(key_of(JOB), after, self.now)

    def run_until(self, condition: Callable[[], bool], seconds_max: float) -> None:
        """Lets time pass until something is so; AssertionError if it does not come about."""
        deadline = self.now + seconds_max
        while not condition():
            assert self.now < deadline, f"seed {self.seed}: in vain"
            self.run(self.now + 0.5)
