"""Agents on an in-memory network whose clocks only move when they are told to."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
from recording_client import RecordingClient, client_of
from simulated_disk import SimulatedDisk

import query
from agent import Agent, Feed, SpillArea, StreamOptions, Submit, WindowResult
from agent.parsing import Parsed
from agent.runtime.ingest.event_clock import FUTURE_MS, EventClock
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.master.job_master import SETTLE_S
from overlay import Id, MemoryNetwork, Node, Peer, app_id, group_id

COUNT = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"
KEY = app_id("shop", b"")
WALL_MS = 1_700_000_000_000
"""The wall clock when the network's is at 0."""
WEB: Mapping[str, StreamOptions] = {"web": StreamOptions()}


class FollowedClock(EventClock):
    """Believes the fleet's wall clock, which steps to the time of what is fed."""

    def observe(self, now: float, wall_ms: int) -> int:
        self._lead_ms = None
        return super().observe(now, wall_ms)


class Fleet:
    """Agents that all have the streams, but for the last `bystanders` of them, which have none."""

    def __init__(
        self,
        size: int,
        bystanders: int = 0,
        salt: str = "",
        streams: Mapping[str, StreamOptions] = WEB,
        rooms: Mapping[str, SpillArea] | None = None,
        disks: Mapping[str, SimulatedDisk] | None = None,
    ) -> None:
        self.rooms = rooms or {}
        self.disks = disks or {}
        self.network = MemoryNetwork()
        self.agents: list[Agent] = []
        self.results: list[WindowResult] = []
        self.streams = streams
        self._fed_upto_ms, self._fed_at = 0, 0.0
        for number in range(size):
            self.add(f"agent-{number}", salt, streams if number < size - bystanders else {})

    def add(self, name: str, salt: str = "", streams: Mapping[str, StreamOptions] = WEB) -> Agent:
        node = Node(Peer(group_id(f"{name} {salt}"), name), random=random.Random(len(self.agents)))
        self.network.add(node)
        agent = self.new_agent(name, node, streams)
        agent.masters.on_result = self.results.append
        self.agents.append(agent)
        if (disk := self.disks.get(name)) is not None:
            agent.restore(disk.kept(), self.now)
        if len(self.agents) > 1:
            node.join(self.agents[0].node.peer, self.now)
        else:
            node.start(self.now)
        self.settle()
        assert node.is_active
        agent.start(self.now)
        self.settle()
        return agent

    def new_agent(self, name: str, node: Node, streams: Mapping[str, StreamOptions]) -> Agent:
        agent = Agent(name, node, streams, room=self.rooms.get(name), observer=RecordingClient(self.disks.get(name)))
        agent.ingest.clock = FollowedClock()
        return agent

    @property
    def now(self) -> float:
        return self.network.now

    @property
    def wall_ms(self) -> int:
        """What is fed may be ahead of the network's clock; until that has caught up, this one is slewed."""
        slewed_ms = self._fed_upto_ms + int((self.now - self._fed_at) * 10)
        return max(WALL_MS + int(self.now * 1000), slewed_ms)

    def settle(self) -> None:
        """Delivers messages, and lets agents work, until there is nothing to do."""
        busy = True
        while busy:
            self.network.deliver_all(self.now)
            busy = sum(agent.process_events(self.now, self.wall_ms) for agent in self.agents) > 0
            for agent in self.agents:
                while agent.has_work:
                    agent.work(self.now, self.wall_ms)
                    busy = True
                if (disk := self.disks.get(agent.name)) is not None and (count := disk.write()):
                    agent.jobs_stored(count, self.now, self.wall_ms)
                    busy = True

    def wait(self, seconds: float) -> None:
        """Lets time pass, for the overlay too; agents' timers are handled at its end."""
        end = self.now + seconds
        while self.network.next_timer() <= end:
            self.network.deliver_all(self.network.advance())
        self.network.deliver_all(end)
        for agent in self.agents:
            agent.handle_timer(self.now, self.wall_ms)
        self.settle()

    def wait_long(self, seconds: float) -> None:
        """The same in small steps, so that what is repeated is repeated."""
        for _ in range(round(seconds / 0.5)):
            self.wait(0.5)

    # Jobs.

    def submit(
        self,
        text: str = COUNT,
        name: str = "shop",
        by: int = 0,
        *,
        max_groups: int = query.GROUPS_DEFAULT,
        beyond_groups: query.BeyondGroups = "other",
        **options: Any,
    ) -> Id:
        """A bounded job, unless the options say otherwise; its master need not wait for anybody to enrol."""
        catalog = {"web": query.Schema({}, open=True)} | dict.fromkeys(self.streams, query.Schema({}, open=True))
        plan = query.analyze(query.parse(text), catalog, max_groups=max_groups, beyond_groups=beyond_groups)
        key = app_id(name, b"")
        job = Submit(key, name, plan.stream, plan.to_wire(), text, **options)
        client_of(self.agents[by]).submit(job, self.now, self.wall_ms)
        self.settle()
        if options.get("bounded", True):
            self.network.deliver_all(self.now + SETTLE_S)
        return key

    def insert(self, number: int, parsed: Parsed) -> None:
        """Gives an agent a block on each of its feeds."""
        self._follow(parsed)
        for feed in self.agents[number].ingest.feeds():
            self.give(self.agents[number], feed.key, as_read(parsed, feed))

    def give(self, agent: Agent, key: FeedKey, parsed: Parsed) -> None:
        """Gives an agent a block of one feed, when the wall clock has come to its newest event that may be believed."""
        self._follow(parsed)
        agent.ingest.insert(key, parsed, self.now, self.wall_ms)

    def _follow(self, parsed: Parsed) -> None:
        for frame in parsed.frames:
            newest = frame["@time"].filter(frame["@time"] <= self.wall_ms + FUTURE_MS).max()
            if isinstance(newest, int) and newest > self.wall_ms:
                self._fed_upto_ms, self._fed_at = newest, self.now

    def catch_up(self, *numbers: int) -> None:
        """These agents, or all, have read everything, and seal what they can."""
        for number, agent in enumerate(self.agents):
            if not numbers or number in numbers:
                for feed in agent.ingest.feeds():
                    agent.ingest.caught_up(feed.key, self.now, self.wall_ms)
        self.work()

    def work(self) -> None:
        self.settle()

    def finish(self) -> list[WindowResult]:
        """The input of bounded jobs ends."""
        for agent in self.agents:
            for feed in agent.ingest.feeds():
                agent.ingest.end_of_feed(feed.key, self.now, self.wall_ms)
        self.work()
        self.wait(1.0)
        return self.results

    def by_job(self, number: int) -> list[tuple[int | None, Any]]:
        return client_of(self.agents[number]).by_job()

    def notices(self, number: int) -> list[Any]:
        return client_of(self.agents[number]).notices()


def as_read(parsed: Parsed, feed: Feed) -> Parsed:
    """With a column twice where a feed wants it as two types, as parsers do it."""
    again = [column for column in feed.columns if column.name != column.field]
    frames = [
        frame.with_columns(pl.col(column.field).alias(column.name) for column in again if column.field in frame.columns)
        for frame in parsed.frames
    ]
    return replace(parsed, frames=tuple(frames))


def events(*products: str | None, at_ms: int = 0, **columns: Any) -> Parsed:
    times = pl.Series([at_ms] * len(products), dtype=pl.Int64)
    names = pl.Series(products, dtype=pl.String)
    return Parsed((pl.DataFrame({"@time": times, "product": names, **columns}),), malformed=0)
