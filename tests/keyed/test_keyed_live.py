"""Jobs with keyed elements on agents in earnest: processes, TLS, contained programs, growing logs, a killed host."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import elf_process
import pytest

from agent.programs.confinement import refusal
from elf.client import RefusedError, SyncClient
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
AGENTS = 4
DEADLINE_S = 60.0
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "you",
    "that",
    "it",
    "he",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "at",
    "be",
    "this",
    "have",
    "from",
    "or",
]


class Quotes:
    """Logs of quotations, one beside each agent, and how often each word is in them."""

    def __init__(self, folder: Path) -> None:
        self.logs = [folder / f"quotes-{number}.json" for number in range(1, AGENTS + 1)]
        for log in self.logs:
            log.write_text("")
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(26)

    def write(self, logs: list[Path], quotes: int = 50) -> None:
        for log in logs:
            with log.open("a") as file:
                for _ in range(quotes):
                    text = self._chance.choices(WORDS, weights=range(len(WORDS), 0, -1), k=8)
                    self.counts.update(text)
                    file.write(json.dumps({"time": datetime.now(UTC).isoformat(), "text": " ".join(text)}) + "\n")

    @property
    def top(self) -> dict[str, int]:
        return dict(sorted(self.counts.items(), key=lambda one: (-one[1], one[0]))[:10])


@pytest.fixture
def quotes(tmp_path: Path) -> Quotes:
    return Quotes(tmp_path)


@pytest.fixture
def fleet(tmp_path: Path, quotes: Quotes) -> Iterator[AgentFleet]:
    specs = [
        AgentSpec(f"agent-{n}", (StreamFiles("quotes", (str(log),), read_from="beginning"),))
        for n, log in enumerate(quotes.logs, 1)
    ]
    with AgentFleet(tmp_path / "agents", specs) as agents:
        yield agents


def submitted(fleet: AgentFleet, job: str) -> None:
    environment = {"ELF_SOCKET": str(fleet.socket("agent-1")), "ELF_CREATOR": str(fleet.creator)}
    with mock.patch.dict(os.environ, environment):
        finished = elf_process.elf("submit", job)
    assert finished.code == 0, finished.err
    assert finished.out.endswith(f"{AGENTS} of {AGENTS} agents run it\n")


def latest(fleet: AgentFleet, by: str, app: str) -> dict[str, int]:
    """The last window with rows."""
    try:
        windows = SyncClient(str(fleet.socket(by)), DEADLINE_S).ask(app, windows=60).windows
    except RefusedError:  # its master was killed, or is being chosen
        return {}
    found = [window for window in windows if window.rows]
    return {row["word"]: row["n"] for row in found[-1].rows} if found else {}


def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def test_top_words_are_those_of_the_logs_also_after_a_host_is_killed_and_has_come_back(
    fleet: AgentFleet, quotes: Quotes
) -> None:
    submitted(fleet, "top-words")
    for _ in range(5):
        quotes.write(quotes.logs)
        time.sleep(0.2)
    asked = lambda: latest(fleet, "agent-1", "top-words")  # noqa: E731
    until(lambda: asked() == quotes.top, lambda: (asked(), quotes.top))
    quotes.write(quotes.logs)
    fleet.kill("agent-3")
    for _ in range(5):
        quotes.write(quotes.logs)  # also where nobody reads for now
        time.sleep(0.2)
    fleet.restart("agent-3")
    for _ in range(5):
        quotes.write(quotes.logs)
        time.sleep(0.2)
    until(lambda: asked() == quotes.top, lambda: (asked(), quotes.top))
