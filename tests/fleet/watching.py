"""A job watched from a thread of its own: its windows as they come, and conditions to wait for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import elf
from agent.control.messages import Acknowledged, Ended
from elf.client import Result, SyncJob

WAIT_S = 0.2
DEADLINE_S = 240.0
"""Upper bound on waiting for a window or an acknowledgement, on a machine with much else to do."""


@dataclass(frozen=True)
class Came:
    """A window and when it came (monotonic seconds)."""

    result: Result
    at_s: float

    @property
    def start_ms(self) -> int:
        return milliseconds(self.result.window_start)

    @property
    def end_ms(self) -> int:
        return milliseconds(self.result.window_end)


class Watch:
    """`with Watch(socket, app) as watch:` follows a running job, reconnecting; everything seen is kept."""

    def __init__(self, socket: Path, app: str) -> None:
        self.windows: list[Came] = []
        self.acknowledged: list[Acknowledged] = []
        self.error: BaseException | None = None
        self._socket = socket
        self._app = app
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {app}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(
        self, what: str, condition: Callable[[Came], bool], timeout_s: float = DEADLINE_S, *, after: int = 0
    ) -> Came:
        """The first window from number `after` on that meets the condition; AssertionError where patience ends."""
        deadline = time.monotonic() + patience(timeout_s)
        while True:
            for came in self.windows[after:]:
                if condition(came):
                    return came
            assert self.error is None, f"waiting for {what}: {self.error!r}"
            assert time.monotonic() < deadline, f"in vain: {what}; seen: {self.summary(after)}"
            time.sleep(WAIT_S / 10)

    def summary(self, after: int = 0) -> list[str]:
        """What came lately, for messages."""
        return [
            f"{came.result.window_start} {came.result.contributors}/{came.result.expected} -{came.result.missing}"
            f" ~{came.result.partial}"
            for came in self.windows[after:][-12:]
        ]

    def _run(self) -> None:
        try:
            with elf.connect_sync(self._socket) as client, client.follow(self._app, reconnect=True) as job:
                self._take_all(job)
        except BaseException as error:
            self.error = error

    def _take_all(self, job: SyncJob) -> None:
        while not self._stop.is_set():
            match job.wait(WAIT_S):
                case Result() as result:
                    self.windows.append(Came(result, time.monotonic()))
                case Acknowledged() as acknowledged:
                    self.acknowledged.append(acknowledged)
                case Ended(reason=reason):
                    raise AssertionError(f"{self._app} ended: {reason}")
                case _:
                    pass


def milliseconds(moment: str | None) -> int:
    assert moment is not None
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def submit(socket: Path, text: str, app: str, agents: int) -> Acknowledged:
    """Starts a job that stays when we go, and waits until all agents run it."""
    deadline = time.monotonic() + DEADLINE_S
    heard = None
    with elf.connect_sync(socket) as client, client.query(text, app=app, detach=True) as job:
        while time.monotonic() < deadline:
            update = job.wait(WAIT_S)
            assert not isinstance(update, Ended), update
            if isinstance(update, Acknowledged):
                heard = update
                if update.agents == update.expected == agents:
                    return update
    raise AssertionError(f"{app} does not run on all {agents} agents: {heard}")


def patience(seconds: float) -> float:
    """A time limit; a longer one while the machine's cores have much more to do than this test."""
    return seconds * (4 if os.getloadavg()[0] > 4 * (os.cpu_count() or 1) else 1)
