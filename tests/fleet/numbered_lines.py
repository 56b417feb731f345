"""A server whose log lines have numbers, and windows that count each number: what is lost or counted twice shows."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trio

import elf
from elf.demo.agents.agent_process import Settings
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

PAUSE_S = 0.01
FIRST_LINE = '{"time": "2026-01-01T00:00:00Z", "id": -1}\n'
"""A line that is there before the agents, and tells them the form of the log."""
OF_EACH = 1_000_000
"""Distance between the first numbers of two servers of a fleet."""
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


class NumberedFleet(AgentFleet):
    """Agents with a stream `web`, each beside a server of its own that writes from when all of them are ready.

    `settings`: further ones, by agent. `first_lines`: lines that are in each log before the agents are there.
    """

    def __init__(
        self, folder: Path, names: Sequence[str], settings: Mapping[str, Settings] | None = None, first_lines: int = 1
    ) -> None:
        self.logs = {name: folder / f"{name}.json" for name in names}
        for log in self.logs.values():
            log.write_text(FIRST_LINE * first_lines)
        self._servers = [Writer(log, OF_EACH * place) for place, log in enumerate(self.logs.values())]
        self._writing = ExitStack()
        own = settings or {}
        specs = [
            AgentSpec(name, (StreamFiles("web", (str(log),)),), settings=own.get(name, ()))
            for name, log in self.logs.items()
        ]
        super().__init__(folder / "agents", specs)

    def __enter__(self) -> Self:
        super().__enter__()
        for server in self._servers:
            self._writing.enter_context(server.writing())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writing.close()
        super().__exit__(kind, error, traceback)


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
