"""Real agents that count by key: windows have all that is in the logs, once, also where a worker is killed."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import elf_process
import pytest
from counted_logs import CountedLogs
from test_killed_workers import AGENTS, LATE_S, LATER, HotLogs

from elf.client import ClientError

pytestmark = [pytest.mark.live, pytest.mark.slow]
WORKERS = 16
QUERY = (
    f"SELECT COUNT(*) AS n, SUM(id) AS ids FROM lines KEYED BY word OVER {WORKERS} WORKERS "
    "WINDOWING 1 SECOND GRACE 0 SECONDS"
)


class Told(NamedTuple):
    """The last word on one second: the lines and the sum of their numbers, who is named, and when it was first told."""

    n: int
    ids: int
    named: tuple[str, ...]
    late: int
    at: float


class LinesBySecond(HotLogs):
    """Remembers the second of each line."""

    def __init__(self, folder: Path, chance: random.Random, agents: int) -> None:
        super().__init__(folder, chance, agents)
        self.seconds: dict[int, list[int]] = defaultdict(list)

    def wrote(self, now: datetime, number: int) -> None:
        self.seconds[int(now.timestamp())].append(number)


class WorldOfWindows(CountedLogs):
    """The fleet with the query, and what it has told of each second."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.logs: LinesBySecond
        super().__init__(folder, seed, LinesBySecond(folder / "logs", random.Random(seed), AGENTS))
        self.told: dict[int, Told] = {}
        self._is_over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[WorldOfWindows]:
        listener = threading.Thread(target=self._listen)
        with self.fleet:
            submitted = self.elf("query", "--app", self.app, "--detach", QUERY)
            assert submitted.code == 0, submitted.err
            self.logs.grow()
            listener.start()
            try:
                self.until(lambda: len(self.told) > 2, lambda: self.told)
                yield self
            finally:
                self._is_over.set()
                self.logs.stop()
                listener.join()
            assert self.fleet.faults() == []

    def _listen(self) -> None:
        while not self._is_over.wait(0.1):
            with suppress(ClientError, OSError):
                for window in self.client().ask(self.app, windows=30).windows:
                    self._take(window)

    def _take(self, window: Any) -> None:
        second = int(datetime.fromisoformat(window.window_start.replace("Z", "+00:00")).timestamp())
        row = window.rows[0] if window.rows else {"n": 0, "ids": 0}
        known = self.told.get(second)
        at = time.time() if known is None else known.at
        named = (*window.missing, *window.partial)
        self.told[second] = Told(row["n"], row["ids"] or 0, named, window.late, at)

    def hosted(self) -> dict[str, int]:
        """How many workers each agent hosts, as `elf status` of it says; of those that answer."""
        found = {}
        for name in filter(self.fleet.is_running, self.fleet.names):
            with suppress(ClientError, OSError):
                found[name] = self.client(name).status().counters.get("keyed.hosted", 0)
        return found

    def neighbours(self, name: str) -> list[str]:
        """The agents that one knows as its neighbours, as `elf status` of it says."""
        return self.client(name).status().leaf_set

    def until_all_are_hosted(self) -> None:
        """Waits until each worker has a host."""
        self.until(lambda: sum(self.hosted().values()) == WORKERS, self.hosted)

    def until_told(self, second: int) -> None:
        self.until(lambda: max(self.told) >= second, lambda: (second, self.told))

    def latest_s(self, since: float) -> float:
        """How long after its end a window came at the latest, of those since a time."""
        return max(told.at - second - 1 for second, told in self.told.items() if told.at >= since)

    def check(self) -> None:
        """Windows that name nobody have all lines of their second, once; of all others no line counts twice."""
        late = sum(told.late for told in self.told.values())
        lacking = 0
        for second in sorted(self.told)[1:-1]:
            told, written = self.told[second], self.logs.seconds[second]
            assert told.n <= len(written), (second, told, len(written))
            if not told.named and told.n == len(written):
                assert told.ids == sum(written), (second, told)
            lacking += len(written) - told.n if not told.named else 0
        assert lacking <= late, (lacking, late, self.told)
        seconds = sorted(self.told)
        assert seconds == list(range(seconds[0], seconds[-1] + 1)), "windows lack"


def test_windows_count_each_line_once_where_workers_are_killed_join_and_are_drained(tmp_path: Path) -> None:
    with WorldOfWindows(tmp_path, seed=7).running() as world:
        world.fleet.terminate(LATER)
        world.until_told(int(time.time()))
        host = max(world.client().elements(world.app).elements, key=lambda one: one.events).agent
        drained, witness, *_ = (one for one in world.fleet.names if one not in (host, LATER))
        since, before = time.time(), world.hosted()
        world.kill(host)
        world.until(lambda: world.hosted() != before, lambda: before)
        assert world.client(host).status().uptime_s < time.time() - since
        world.until_told(int(time.time()) + 3)
        assert world.latest_s(since) < LATE_S
        world.until_all_are_hosted()
        world.fleet.restart(LATER)
        world.until(lambda: LATER in world.neighbours(witness), lambda: world.neighbours(witness))
        world.until_all_are_hosted()
        world.until_told(int(time.time()) + 3)
        number = int(drained.removeprefix("agent-"))
        world.logs.served = tuple(one for one in world.logs.served if one != number)
        world.until_told(int(time.time()))
        assert elf_process.elf("drain", "--socket", str(world.fleet.socket(drained))).code == 0
        world.until(lambda: drained not in world.neighbours(witness), lambda: world.neighbours(witness))
        world.until_all_are_hosted()
        world.until_told(int(time.time()) + 3)
        world.logs.stop()
        world.until_told(max(world.logs.seconds) - 1)
        world.check()
        named = {second: told.named for second, told in world.told.items() if told.named}
        assert {name for names in named.values() for name in names} <= {host, drained, LATER}
        assert len(named) < len(world.told) / 2
        print(
            {
                "latest_s": round(world.latest_s(since), 1),
                "late": sum(told.late for told in world.told.values()),
                "named": named,
                "told": len(world.told),
            }
        )
