"""Agents in memory beside web servers of a lending company, whose logs of the past they read as daemons do."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_fleet import WALL_MS
from program_fleet import ProgramFleet

from agent import StreamOptions, WindowResult
from agent.parsing import Format, parser
from agent.sources import Block, Origin
from elf.demo.lending.lending_truth import (
    DAY_MS,
    MINUTE_MS,
    OPERATORS,
    Agreement,
    LendingOperator,
    agreement,
    read_applications,
)
from overlay import Id

JOB = Path(__file__).parents[2] / "elf" / "jobs" / "lending.py"
FORM = Format("json", "date")
MIDNIGHT_MS = WALL_MS // DAY_MS * DAY_MS - DAY_MS


def application(at_ms: int, **fields: Any) -> dict[str, Any]:
    """A line of a log."""
    date = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "user": "ann",
        "area": "Fyn",
        "date": date,
        "approval": True,
        "amount": 10_000,
        "return": 10_800,
        "lendingTime": 365,
        "income": 40_000,
        **fields,
    }


def drawn(dice: random.Random, at_ms: int) -> dict[str, Any]:
    """Some application; a few say neither how much nor for how long."""
    amount = dice.choice([0, 1_000, 7_300, dice.randrange(1, 90_000)])
    return application(
        at_ms,
        user=f"u{dice.randrange(50)}",
        area=dice.choice(["Als", "Fyn", "Sjælland"]),
        approval=dice.random() < 0.5,
        amount=amount,
        **{"return": amount + dice.randrange(9_000)},
        lendingTime=dice.choice([0, 1, 90, 365, 730]),
        income=dice.randrange(1, 90_000),
    )


class LendingFleet(ProgramFleet):
    """The first `servers` of the agents have a log."""

    def __init__(self, directory: Path, size: int = 3, servers: int = 3, salt: str = "") -> None:
        options = {"loans": StreamOptions("beginning")}
        super().__init__(directory, size, streams=options, bystanders=size - servers, salt=salt)
        self.logs = [directory / f"shop-{number}.json" for number in range(servers)]
        self.readers = self.agents[:servers]
        for log in self.logs:
            log.touch()

    def begin(self) -> Id:
        """Submits the job; all of its stages have everybody then."""
        key = self.submit_code(JOB.read_text())
        self.wait_long(3.0)
        return key

    def write(self, number: int, lines: Sequence[Mapping[str, Any]]) -> None:
        """A server writes lines, and the agent beside it reads them."""
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        with self.logs[number].open("ab") as log:
            log.write(data)
        agent = self.readers[number]
        for feed in agent.ingest.feeds():
            if feed.stream == "loans":
                parsed = parser(FORM, feed.columns).parse(Block(data, Origin(self.logs[number].name, 0), 0), 0)
                self.give(agent, feed.key, parsed)
        self.settle()

    def pass_time(self, dice: random.Random, begin_ms: int, end_ms: int, *, most: int = 4) -> None:
        """All servers log up to `most` applications in each ten minutes, then one that lets windows close."""
        for pane_ms in range(begin_ms, end_ms, 10 * MINUTE_MS):
            for number in range(len(self.logs)):
                times = sorted(pane_ms + dice.randrange(10 * MINUTE_MS) for _ in range(dice.randrange(most + 1)))
                if times:
                    self.write(number, [drawn(dice, at_ms) for at_ms in times])
            self.wait(0.3)
        for number in range(len(self.logs)):
            self.write(number, [application(end_ms + MINUTE_MS)])
        self.wait_long(5.0)

    def windows(self, app: str) -> list[WindowResult]:
        return [result for result in self.results if result.app == app]

    def agreement(self, operator: LendingOperator, upto_ms: int) -> Agreement:
        """The windows of an operator held against the logs."""
        return agreement(operator, self.windows(operator.app), read_applications(self.logs), upto_ms)  # type: ignore[arg-type]

    def agreements(self, upto_ms: int) -> list[Agreement]:
        """Those of all five."""
        return [self.agreement(one, upto_ms) for one in OPERATORS]
