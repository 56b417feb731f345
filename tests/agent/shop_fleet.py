"""Agents in memory beside web servers of a shop, whose lines they read as daemons do; the shop keeps all its lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from program_fleet import ProgramFleet
from recording_client import client_of

from agent import StreamOptions, WindowResult
from agent.parsing import Format, parser
from agent.runtime.requests.events import Shown
from agent.sources import Block, Origin
from elf.demo.story.truth import Event
from overlay import Id

JOBS = Path(__file__).parents[2] / "elf" / "jobs"
FORM = Format("json", "created_at")


def event(at_ms: int, **fields: Any) -> dict[str, Any]:
    """An event of the shop at an instant (epoch ms)."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {
        "created_at": moment,
        "product": "Angry Birds Season",
        "clicks_count": 0,
        "buys_count": 0,
        "likes_count": 0,
        "store": "video_games",
        **fields,
    }


class ShopFleet(ProgramFleet):
    """`servers` are the events of each server, as its log holds them."""

    def __init__(self, directory: Path, size: int = 4) -> None:
        super().__init__(directory, size, streams={"events": StreamOptions()})
        self.servers: list[list[Event]] = [[] for _ in range(size)]

    def submit_job(self, name: str, **changed: object) -> Id:
        """A shipped job, with other values of some of its constants."""
        source = (JOBS / f"{name}.py").read_text()
        for constant, value in changed.items():
            before, found, after = source.partition(f"\n{constant} = ")
            assert found, constant
            source = f"{before}{found}{value!r}\n{after.partition(chr(10))[2]}"
        key = self.submit_code(source)
        self.wait(0.5)
        self.catch_up()
        return key

    def write(self, number: int, events: Sequence[Mapping[str, Any]]) -> None:
        """A server writes lines in this moment, and the agent beside it reads them."""
        written = [event(self.wall_ms, **one) for one in events]
        self.servers[number] += [Event(self.wall_ms, one) for one in written]
        data = "".join(f"{json.dumps(one)}\n" for one in written).encode()
        agent = self.agents[number]
        for feed in agent.ingest.feeds():
            parsed = parser(FORM, feed.columns).parse(Block(data, Origin("events.json", 0), 0), 0)
            self.give(agent, feed.key, parsed)
        self.settle()

    def play(self, seconds: int, written: Callable[[int], Sequence[tuple[int, Mapping[str, Any]]]]) -> None:
        """Lets seconds pass; `written` gives the lines of each: the server's number and the event."""
        for second in range(seconds):
            lines = written(second)
            for number in range(len(self.agents)):
                if mine := [one for server, one in lines if server == number]:
                    self.write(number, mine)
            self.wait(1.0)
            self.catch_up()

    def events(self) -> list[Event]:
        """Of all servers."""
        return [one for events in self.servers for one in events]

    def windows(self, app: str) -> list[WindowResult]:
        return [result for result in self.results if result.app == app]

    def shown(self, app: str) -> list[list[Any]]:
        """All that a job has shown to web servers since this was asked last, by agent."""
        found: list[list[Any]] = [[] for _ in self.agents]
        for number, agent in enumerate(self.agents):
            for notice in client_of(agent).notices():
                if isinstance(notice, Shown) and notice.app == app:
                    found[number].append(msgspec.json.decode(notice.json))
        return found
