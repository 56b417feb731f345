"""Agents' logs, what a live job publishes of them, and the same logs as an archive without Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

import query
from agent import EmbeddedFleet, Submit
from agent.parsing import Format
from agent.sources import Block, Origin
from elf.batch.reconcile.live_results import LiveResult, VersionLine
from elf.batch.reconcile.verdicts import ArchivedSpan
from overlay import app_id

STREAM = "events"
COUNT = "SELECT product, COUNT(*) AS n, SUM(price) AS paid FROM events GROUP BY product WINDOWING 1 SECOND"
FORMAT = Format("json", time_field="time")
BORN_MS = 1_700_000_000_000
Event = dict[str, Any]
ALWAYS = ArchivedSpan(0, BORN_MS * 2)


def version(text: str = COUNT, number: int = 1, **fields: Any) -> VersionLine:
    plan = query.analyze(query.parse(text), {STREAM: query.Schema({}, open=True)}).to_wire()
    described = {
        "app": "shop", "app_id": "00" * 16, "born_ms": BORN_MS, "creator": "", "version": number, "after": -(2**63),
        "starts": -(2**63), "text": text, "plan": json.loads(json.dumps(plan)), "grace_ms": 5000,
    }  # fmt: skip
    return VersionLine(**(described | fields))


def windows(
    version: VersionLine, logs: Iterable[list[Event]], since_ms: int | None = None, until_ms: int | None = None
) -> dict[tuple[str, str], LiveResult]:
    """Results of a version over logs."""
    fleet = EmbeddedFleet(1, [STREAM], random.Random(0))
    key = app_id("shop", b"")
    fleet.submit(Submit(key, "shop", STREAM, version.plan, since_ms=since_ms, until_ms=until_ms))
    read = fleet.parser(STREAM, FORMAT)
    for log in logs:
        data = "".join(json.dumps(event) + "\n" for event in log).encode()
        fleet.insert(0, STREAM, read.parse(Block(data, Origin("log", 1), 0), 0))
    found = [msgspec.json.decode(one.to_bytes(), type=LiveResult) for one in fleet.end_of_input()]
    return {one.window: one for one in found}


@dataclass
class Logs:
    """The archive: events by agent, and the time that is archived of each."""

    events: dict[str, list[Event]]
    span: ArchivedSpan = ALWAYS
    asked: list[frozenset[str]] = field(default_factory=list)

    def spans(self, stream: str) -> Mapping[str, ArchivedSpan]:
        assert stream == STREAM
        return dict.fromkeys(self.events, self.span)

    def windows(
        self, version: VersionLine, agents: frozenset[str], since_ms: int | None, until_ms: int | None
    ) -> Mapping[tuple[str, str], LiveResult]:
        self.asked.append(agents)
        return windows(version, [self.events[name] for name in sorted(agents & self.events.keys())], since_ms, until_ms)


def shop_logs(agents: int = 3, seconds: int = 10, seed: int = 1) -> dict[str, list[Event]]:
    """Some events each second on every agent."""
    chance = random.Random(seed)
    return {
        f"agent-{number}": [
            {
                "time": BORN_MS + 1000 * second + chance.randrange(1000),
                "product": chance.choice("abcdef"),
                "price": chance.random(),
            }
            for second in range(seconds)
            for _ in range(chance.randrange(3, 9))
        ]
        for number in range(1, agents + 1)
    }


def published(version: VersionLine, logs: Mapping[str, list[Event]], absent: Iterable[str] = ()) -> list[bytes]:
    """The lines of a job's windows over these logs, of all agents but some."""
    absent = sorted(absent)
    roster = {"kind": "roster", "roster": "all", "agents": sorted(logs)}
    present = [log for name, log in sorted(logs.items()) if name not in absent]
    lines = [msgspec.json.encode(version), json.dumps(roster).encode()]
    for one in windows(version, present).values():
        whole = msgspec.structs.replace(
            one, app_id=version.app_id, born_ms=version.born_ms, roster="all", version=version.version,
            missing=absent, contributors=len(present), expected=len(logs),
        )  # fmt: skip
        lines.append(msgspec.json.encode(whole))
    return lines
