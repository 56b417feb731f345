"""Real agents among which a hot key is split: one that has a part of it is killed, one joins, one is drained."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import elf_process
import pytest
from counted_logs import PATIENCE_S, CountedLogs, GrowingLogs

from agent.programs.confinement import refusal
from elf.client import ClientError

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
AGENTS = 9
LATER = f"agent-{AGENTS}"
"""The agent that joins later."""
HOT_SHARE = 0.6
EVERY_S, LINES = 0.5, 2
LATE_S = 5.0
JOB = """
import elf

Line = elf.source("SELECT id, word FROM lines")


@elf.event
class Total:
    word: str
    n: int
    ids: int


class Count(elf.PE):
    keys = {Line: "word"}
    grouping = "fish"
    workers = 16
    every_s = 1
    n: int = 0
    ids: int = 0

    def process_event(self, line):
        self.n += 1
        self.ids += line.id

    def combine(self, other):
        self.n += other.n
        self.ids += other.ids

    def output(self):
        self.emit(Total(self.key, self.n, self.ids))


class Counts(elf.Job):
    elements = [Count]
    query = '''SELECT word, MAX(n) AS n, MAX(ids) AS ids FROM Total GROUP BY word
               WINDOWING 1 SECOND'''
"""


class HotLogs(GrowingLogs):
    """Logs of words with numbers, of which one is as hot as most others together: which, can be changed."""

    def __init__(self, folder: Path, chance: random.Random, agents: int) -> None:
        super().__init__(folder, chance, agents)
        self.hot = "hot-1"
        self.served = tuple(range(1, agents))
        """Numbers of the logs that get lines: those of agents that are there."""
        self.ids: Counter[str] = Counter()
        self.began_at = 0.0
        self._number = 0
        self._pick = chance
        self._guard = threading.Lock()

    def _write(self) -> None:
        self.began_at = time.monotonic()
        files = [path.open("a", buffering=1) for path in self.paths]
        while not self._is_over.wait(EVERY_S):
            for number in self.served:
                for _ in range(LINES):
                    self._write_line(files[number - 1])
        for file in files:
            file.close()

    def _write_line(self, file: Any) -> None:
        word = self.hot if self._pick.random() < HOT_SHARE else f"w{self._pick.randrange(30)}"
        with self._guard:
            self._number += 1
            now = datetime.now(UTC)
            file.write(json.dumps({"time": now.isoformat(), "id": self._number, "word": word}) + "\n")
            self.wrote(now, self._number)
            self.counts[word] += 1
            self.ids[word] += self._number

    def wrote(self, now: datetime, number: int) -> None:
        """Notes that a line has been written."""

    def sums(self) -> dict[str, tuple[int, int]]:
        """How often each word is in the logs, and the sum of the numbers of its lines."""
        with self._guard:
            return {word: (n, self.ids[word]) for word, n in self.counts.items()}


class HotWorld(CountedLogs):
    """The fleet, whose newest window tells the totals of all words."""

    job = JOB

    def __init__(self, folder: Path, seed: int) -> None:
        self.logs: HotLogs
        super().__init__(folder, seed, HotLogs(folder / "logs", random.Random(seed), AGENTS))

    def totals(self) -> dict[str, tuple[int, int]]:
        """The greatest totals in the windows of the last seconds."""
        found: dict[str, tuple[int, int]] = {}
        with suppress(ClientError, OSError):
            for window in self.client().ask(self.app, windows=20).windows:
                for row in window.rows:
                    found[row["word"]] = max(found.get(row["word"], (0, 0)), (row["n"], row["ids"]))
        return found

    def counted(self) -> int:
        return sum(n for n, _ in self.totals().values())

    def until_exact(self) -> None:
        """Waits until all that has been written has been counted, once; the last window comes from behind."""
        written = self.logs.sums()

        def is_there() -> bool:
            totals = self.totals()
            return all(totals.get(word, (0, 0))[0] >= n for word, (n, _) in written.items())

        self.until(is_there, lambda: (written, self.totals()))
        self.until(lambda: not self.under_replicated(), self.under_replicated)

    def elements(self) -> list[Any]:
        """What agents say of the split element."""
        with suppress(ClientError, OSError):
            return [one for one in self.client().elements(self.app).elements if one.grouping]
        return []

    def hottest(self) -> set[str]:
        """The key that is hottest at each agent."""
        return {one.hot[0].key for one in self.elements() if one.hot}

    def silence_s(self, act: Any) -> float:
        """The longest time between two windows while something is done, and a while after."""
        times: list[float] = []
        is_over = threading.Event()

        def look() -> None:
            newest = ""
            while not is_over.wait(0.1):
                with suppress(ClientError, OSError):
                    windows = self.client().ask(self.app, windows=1).windows
                    if windows and str(windows[-1].window_end) != newest:
                        newest = str(windows[-1].window_end)
                        times.append(time.monotonic())

        thread = threading.Thread(target=look)
        thread.start()
        act()
        time.sleep(2 * LATE_S)
        is_over.set()
        thread.join()
        return max((late - early for early, late in pairwise(times)), default=float("inf"))


def test_nothing_is_lost_or_doubled_where_workers_of_a_hot_key_come_and_go(tmp_path: Path) -> None:
    with HotWorld(tmp_path, seed=5).running() as world:
        world.fleet.terminate(LATER)
        world.until(lambda: world.hottest() == {"hot-1"}, world.elements)
        world.until_exact()
        host = max(world.elements(), key=lambda one: one.events).agent
        assert world.silence_s(lambda: world.kill(host)) < 1 + LATE_S
        world.until_exact()
        world.logs.hot = "hot-2"
        # No agent has had an epoch of lines, so the other key is hotter when it has come as often.
        patience_s = PATIENCE_S + time.monotonic() - world.logs.began_at
        world.until(lambda: "hot-2" in world.hottest(), world.elements, patience_s)
        world.fleet.restart(LATER)
        world.logs.served = tuple(range(1, AGENTS + 1))
        world.until(lambda: any(one.agent == LATER and one.nodes for one in world.elements()), world.elements)
        world.until_exact()
        drained = next(one for one in world.fleet.names if one not in (host, LATER))
        number = int(drained.removeprefix("agent-"))
        world.logs.served = tuple(one for one in world.logs.served if one != number)
        world.until_exact()
        assert elf_process.elf("drain", "--socket", str(world.fleet.socket(drained))).code == 0
        world.until(lambda: all(one.agent != drained or not one.nodes for one in world.elements()), world.elements)
        world.logs.stop()
        world.until_exact()
        assert world.totals() == world.logs.sums()
