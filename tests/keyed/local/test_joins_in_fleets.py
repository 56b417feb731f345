"""Live joins of logs that lie on different agents of an in-memory fleet: each pair counts once."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from memory_fleet import Fleet
from paired_streams import ON, OPEN, pairs
from recording_client import client_of

import query
from agent import StreamOptions, Submit
from agent.parsing import Format, parser
from agent.sources import Block, Origin
from overlay import app_id

SERVES, CLICKS = {"serves": StreamOptions()}, {"clicks": StreamOptions()}
FORMAT = Format("json", time_field="time")
TEXT = (
    "SELECT serves.place, COUNT(*) AS n, COUNT(clicks.serve) AS clicked, SUM(clicks.price) AS paid FROM serves "
    f"LEFT JOIN clicks WITHIN 1 SECOND ON {ON} GROUP BY serves.place WINDOWING 2 SECONDS"
)
APP = app_id("ctr", b"")


@dataclass
class World:
    """Two servers with serves, one with clicks, and one without any log; and what the logs hold."""

    text: str = TEXT
    fleet: Fleet = field(default_factory=lambda: Fleet(2, streams=SERVES))
    serves: list = field(default_factory=list)
    clicks: list = field(default_factory=list)

    def __post_init__(self):
        self.fleet.add("clicks-1", streams=CLICKS)
        self.fleet.add("idle-1", streams={})
        plan = query.analyze(query.parse(self.text), OPEN)
        job = Submit(APP, "ctr", plan.stream, plan.to_wire(), self.text, bounded=False, grace_ms=0)
        client_of(self.fleet.agents[0]).submit(job, self.fleet.now, self.fleet.wall_ms)
        self.fleet.settle()
        self.fleet.wait_long(4.0)

    def write(self, name, stream, events):
        """Events of a log, as its agent reads them."""
        (agent,) = (one for one in self.fleet.agents if one.name == name)
        (feed,) = (one for one in agent.ingest.feeds() if one.stream == stream)
        data = "".join(json.dumps({"time": event["@time"], **event}) + "\n" for event in events).encode()
        read = parser(FORMAT, feed.columns, feed.clauses).parse(Block(data, Origin("log", 1), 0), 0)
        self.fleet.give(agent, feed.key, read)
        self.fleet.settle()
        getattr(self, stream).extend(events)

    def traffic(self, chosen, seconds):
        """Serves and clicks of some seconds, as they happen."""
        for _ in range(seconds * 5):
            now_ms = self.fleet.wall_ms
            names = [f"s{chosen.randrange(10**9)}" for _ in range(3)]
            shown = [
                {"@time": now_ms, "serve": name, "ad": "a", "place": chosen.choice(["top", "side"])} for name in names
            ]
            self.write(chosen.choice(["agent-0", "agent-1"]), "serves", shown)
            older = [one for one in self.serves if now_ms - 1_200 <= one["@time"]]
            clicked = chosen.sample(older, min(len(older), 2))
            click = [{"@time": now_ms, "serve": one["serve"], "ad": "a", "price": 3} for one in clicked]
            self.write("clicks-1", "clicks", [*click, {"@time": now_ms, "serve": None, "ad": "a", "price": 99}])
            self.let_run(0.2)

    def let_run(self, seconds):
        for _ in range(round(seconds / 0.05)):
            self.fleet.catch_up()
            self.fleet.wait(0.05)

    def published(self):
        """The rows of windows that are out, by their start."""
        found = {}
        for result in self.fleet.results:
            for row in result.rows:
                found[result.window_start, row["place"]] = (row["n"], row["clicked"], row["paid"])
        return found

    def expected(self):
        """What all pairs give."""
        n, clicked, paid = Counter(), Counter(), Counter()
        for pair in pairs(self.serves, self.clicks, 1_000, outer=True):
            key = (pair["@time"] // 2_000 * 2_000, pair["serves"]["place"])
            n[key] += 1
            clicked[key] += "clicks" in pair
            paid[key] += pair.get("clicks", {}).get("price", 0)
        return {
            (query.format_timestamp(start), place): (n[start, place], clicked[start, place], paid[start, place] or None)
            for start, place in n
        }


@pytest.mark.slow
def test_pairs_of_logs_on_different_agents_meet_in_their_windows():
    world = World()
    world.traffic(random.Random(5), 6)
    world.let_run(12.0)
    assert world.expected() == world.published()
    assert len(world.published()) >= 6


def test_sources_wait_for_late_events_as_long_as_the_query_says():
    for grace, clicked in ((" GRACE 3 SECONDS", 1), ("", 0)):
        world = World(TEXT + grace)
        now_ms = world.fleet.wall_ms
        world.write("agent-0", "serves", [{"@time": now_ms, "serve": "s1", "ad": "a", "place": "top"}])
        world.let_run(2.5)
        world.write("clicks-1", "clicks", [{"@time": now_ms, "serve": "s1", "ad": "a", "price": 3}])
        world.let_run(10.0)
        ((n, found, _),) = world.published().values()
        assert (n, found) == (1, clicked)
        assert sum(agent.keyed.get(APP).statistics()["missed"] for agent in world.fleet.agents) == 1 - clicked


@pytest.mark.slow
def test_a_host_that_leaves_hands_over_the_events_that_wait():
    world, chosen = World(), random.Random(6)
    world.traffic(chosen, 3)
    leaving = next(one for one in world.fleet.agents if one.name == "idle-1")
    assert leaving.keyed.get(APP).statistics()["hosted"] > 0
    leaving.drain.begin(world.fleet.now)
    world.traffic(chosen, 3)
    assert leaving.drain.is_complete
    leaving.node.leave(world.fleet.now)
    world.fleet.agents.remove(leaving)
    world.let_run(12.0)
    assert world.expected() == world.published()


@pytest.mark.slow
def test_of_a_host_that_dies_no_pair_counts_twice_and_what_it_had_not_passed_on_is_named():
    world, chosen = World(), random.Random(7)
    world.traffic(chosen, 3)
    dead = next(one for one in world.fleet.agents if one.name == "idle-1")
    assert dead.keyed.get(APP).statistics()["hosted"] > 0
    world.fleet.agents.remove(dead)
    world.fleet.network.remove(dead.node)
    world.traffic(chosen, 3)
    world.let_run(40.0)
    found, expected = world.published(), world.expected()
    assert found.keys() == expected.keys()
    for key, (n, clicked, _) in found.items():
        assert n <= expected[key][0]
        assert clicked <= expected[key][1]
    lacking = {start for start, place in expected if found[start, place] != expected[start, place]}
    named = {result.window_start for result in world.fleet.results if "idle-1" in (*result.missing, *result.partial)}
    assert lacking <= named
    assert max(expected)[0] not in lacking
