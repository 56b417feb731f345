"""A server whose log lines have numbers, and windows that count each number: what is lost or counted twice shows."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

import elf

PAUSE_S = 0.01
Rotate = Callable[[Path], None]


class Writer:
    """A web server that writes lines with ids, from the `first` on, and reopens its log when it is told to."""

    def __init__(self, log: Path, first: int = 0, *, has_times: bool = True) -> None:
        self.first = first
        self._has_times = has_times
        self.times: list[float] = []
        """The time of each line, which it has."""
        self.log = log
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._over.wait(PAUSE_S):
            with self._lock, self.log.open("a") as file:
                now = time.time()
                event = {"time": now} if self._has_times else {}
                file.write(json.dumps({**event, "id": self.first + self.written}) + "\n")
                self.times.append(now)

    @property
    def written(self) -> int:
        return len(self.times)

    def rotate(self, rotate: Rotate) -> None:
        with self._lock:
            rotate(self.log)

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


class Windows:
    """What a job has published."""

    def __init__(self) -> None:
        self.ids: Counter[int] = Counter()
        self.late = 0
        self.incomplete = 0
        """Windows that name an agent as missing or partial, or one that they have leaped over."""
        self.told: list[str] = []
        """What each window says of its agents."""

    def add(self, window: Any) -> None:
        for row in window.rows:
            self.ids[int(row["id"])] += int(row["n"])
        self.late += window.late
        self.incomplete += bool(window.missing or window.partial or window.leaped)
        who = f"{window.contributors} of {window.expected}, missing {window.missing}, partial {window.partial}"
        self.told.append(f"{window.window_start}: {who}, leaped {window.leaped_over}, late {window.late}")

    def counted(self) -> int:
        """The number of lines that are in windows, late, or written before the job's first window."""
        return self.ids.total() + self.late + min(self.ids, default=0)


async def count_while(
    body: Callable[[], None], socket: Path, agents: int, query: str, app: str, windows: Windows
) -> None:
    """Runs something in a thread once all agents run the query, and counts its windows meanwhile."""
    async with elf.connect(socket) as client, client.query(query, app=app, max_groups=10_000) as job:
        while job.acknowledged is None or job.acknowledged.agents < agents:
            await job.wait()
        async with trio.open_nursery() as nursery:

            async def take() -> None:
                async for window in job:
                    windows.add(window)

            nursery.start_soon(take)
            await trio.to_thread.run_sync(body)
            nursery.cancel_scope.cancel()


def check(writer: Writer, windows: Windows) -> None:
    """Nothing is lost, nothing counted twice: each line is in one window, or counted late."""
    lost = set(range(min(windows.ids), writer.written)) - set(windows.ids)
    print(f"{writer.written} written, {windows.late} late, {len(lost)} in no window")
    assert max(windows.ids.values()) == 1, "nobody counts twice"
    assert len(lost) == windows.late, "nothing is lost"
