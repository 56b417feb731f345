"""One agent on a processor in virtual time: inserting events of some queries takes as long as a test says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from memory_fleet import WALL_MS, Fleet, as_read
from recording_client import RecordingClient
from test_stragglers import begins

from agent import Agent, StreamOptions, WindowResult
from agent.parsing import Abandoned, Parsed
from agent.runtime.durable.records import Place
from agent.runtime.ingest.in_time.hand_ins import SETTLE_MS
from agent.runtime.ingest.panes.pane_store import PaneStore
from overlay import Node

STEP_S = 0.05
PER_S = 1_000


class VirtualAgent(Fleet):
    """An agent whose log has 1,000 events a second; others have none. `costs_s`: what inserting an event takes, by the
    columns that a query reads; other work takes no time. While the agent inserts, it does nothing else."""

    def __init__(self, size: int = 1, *, patch: pytest.MonkeyPatch, costs_s: Mapping[str, float]) -> None:
        self.free_at = 0.0
        self.costs_s = costs_s
        self.writes: list[int] = []
        """The number of events in each step."""
        self.read = 0
        """The number of steps that were read."""
        self.turned_away = 0
        """How often the log was not read on, as too many of its events waited."""
        add = PaneStore.add

        def add_slowly(store: PaneStore, batch: Any) -> None:
            self.spend(batch.events.height * self.cost_s([one.name for one in store._function.plan.columns]))
            add(store, batch)

        patch.setattr(PaneStore, "add", add_slowly)
        self.began_ms = 0
        super().__init__(size, bystanders=size - 1)

    def cost_s(self, columns: list[str]) -> float:
        return self.costs_s.get("+".join(columns), 0.0)

    def new_agent(self, name: str, node: Node, streams: Mapping[str, StreamOptions]) -> Agent:
        return Agent(name, node, streams, observer=RecordingClient(), time=lambda: max(self.now, self.free_at))

    @property
    def wall_ms(self) -> int:
        return WALL_MS + int(self.now * 1000 + 1e-6)

    def spend(self, seconds: float) -> None:
        self.free_at = max(self.now, self.free_at) + seconds

    @property
    def is_free(self) -> bool:
        """Whether it may begin something before the next step."""
        return self.free_at < self.now + STEP_S

    def settle(self) -> None:
        busy = True
        while busy:
            self.network.deliver_all(self.now)
            busy = sum(agent.process_events(self.now, self.wall_ms) for agent in self.agents) > 0
            if self.began_ms:
                self._read()
            for agent in self.agents:
                if self.is_free and agent.has_work:
                    agent.work(self.now, self.wall_ms)
                    busy = True

    def submit_all(self, queries: Mapping[str, str]) -> None:
        """Submits live jobs, by name, and waits until they may abandon events."""
        self.wait(0.5)
        for name, text in queries.items():
            self.submit(text, name, bounded=False)
        self.catch_up()
        for _ in range(round(SETTLE_MS / 250) + 8):
            self.wait(0.25)
            self.catch_up()
        self.began_ms = self.wall_ms

    def go_on(self, seconds: float, per_s: float = PER_S) -> None:
        """Lets the log grow, and the agent read it whenever it does nothing else."""
        for _ in range(round(seconds / STEP_S)):
            self.wait(STEP_S)
            self.writes.append(round(per_s * STEP_S))
            self.settle()

    def _read(self) -> None:
        agent = self.agents[0]
        ingest, (feed,) = agent.ingest, agent.ingest.feeds()
        while self.read < len(self.writes) and self.is_free:
            at_ms = self.began_ms + round((self.read + 1) * STEP_S * 1000) - 1
            count = self.writes[self.read]
            if not ingest.has_room(feed.key):
                self.turned_away += 1
                return
            abandoned_ms = ingest.abandoned_ms(feed.key)
            if abandoned_ms is not None and at_ms <= abandoned_ms:
                parsed = Parsed((), 0, abandoned=Abandoned(count, at_ms))
            else:
                parsed = self.events(count, at_ms)
            self.read += 1
            ingest.insert(feed.key, as_read(parsed, feed), self.now, self.wall_ms, Place(self.read))
        if self.read == len(self.writes) and self.is_free:
            ingest.caught_up(feed.key, self.now, self.wall_ms)

    def events(self, count: int, at_ms: int) -> Parsed:
        columns = {"product": ["a"] * count, "page": ["p"] * count, "shop": ["s"] * count}
        times = pl.Series([at_ms] * count, dtype=pl.Int64)
        return Parsed((pl.DataFrame({"@time": times, **columns}),), malformed=0)

    def windows(self) -> dict[str, list[WindowResult]]:
        """The windows of each job, from the first on that the log has events of, in order."""
        found: dict[str, dict[float, WindowResult]] = defaultdict(dict)
        for one in self.results:
            found[one.app].setdefault(begins(one), one)
        began = (self.began_ms - WALL_MS) / 1000
        return {app: [one for at, one in sorted(every.items()) if at >= began - 1] for app, every in found.items()}
