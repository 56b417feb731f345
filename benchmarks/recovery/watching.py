"""A live job on agent processes, and when each of its windows came."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import elf
from agent import WindowResult
from benchmarks.agents import LIVE, live_logs, until_all_run
from benchmarks.race import BenchmarkError
from benchmarks.replay import Replay
from elf.client import ClientError, JobEndedError, Result, UnknownJobError
from elf.demo.agents.agents import AgentFleet

GRACE_S = 1.0
RATE = 500.0
"""Events that all servers together log a second."""
QUERY = f"SELECT product, SUM(clicks_count) AS clicks FROM {LIVE} GROUP BY product"
START_TIMEOUT_S = 60.0
ASK_AGAIN_S = 0.1
"""Pause before a job is asked for again that a restarted fleet does not know yet."""
WAIT_TIMEOUT_S = 120.0
"""Time after which a window that is waited for counts as never published."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A window as it came. `late_s`: the delay after its end and grace; times are of the wall clock, in seconds."""

    window_end_s: float
    at_s: float
    result: Result

    @property
    def late_s(self) -> float:
        return self.at_s - self.window_end_s - GRACE_S


def end_s_of(result: WindowResult) -> float:
    """The end of a window, in seconds of the wall clock."""
    assert result.window_end is not None
    return datetime.fromisoformat(result.window_end).timestamp()


class WindowWatch:
    """Follows a job by way of one agent, in a thread, until `close`."""

    def __init__(self, socket: Path, app: str) -> None:
        self._socket, self._app = socket, app
        self._came = threading.Condition()
        self._publications: list[Publication] = []
        self._fault: str | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread with the next window, or with the connection."""
        self._is_closed = True

    def check(self) -> None:
        """Raises BenchmarkError if the job is followed no more."""
        with self._came:
            if self._fault is not None:
                raise BenchmarkError(self._fault)

    def wait(self, is_it: Callable[[Publication], bool], what: str) -> Publication:
        """The first publication of which this holds. Raises BenchmarkError when there is none in time."""
        deadline, seen = time.monotonic() + WAIT_TIMEOUT_S, 0
        with self._came:
            while True:
                for found in self._publications[seen:]:
                    if is_it(found):
                        return found
                seen = len(self._publications)
                left_s = deadline - time.monotonic()
                if self._fault is not None or left_s <= 0:
                    raise BenchmarkError(f"{what}: {self._fault or f'not within {WAIT_TIMEOUT_S:g} s'}")
                self._came.wait(left_s)

    def since(self, wall_s: float) -> list[Publication]:
        """The windows whose end and grace were due after a time, so far."""
        with self._came:
            return [found for found in self._publications if found.window_end_s + GRACE_S > wall_s]

    def _run(self) -> None:
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while (fault := self._follow()) is None and time.monotonic() < deadline and not self._is_closed:
            time.sleep(ASK_AGAIN_S)
        with self._came:
            self._fault = fault
            self._came.notify_all()

    def _follow(self) -> str | None:
        """Follows the job; the reason why it does so no more, None if the job is not known yet."""
        try:
            with elf.connect_sync(self._socket) as client, client.follow(self._app) as job:
                for update in job.updates():
                    if self._is_closed:
                        return "closed"
                    if isinstance(update, Result):
                        self._take(update)
                raise JobEndedError(self._app, job.ended or "lost", job.failure)
        except UnknownJobError:
            return None
        except ClientError as error:
            return str(error)

    def _take(self, result: Result) -> None:
        with self._came:
            self._publications.append(Publication(end_s_of(result), time.time(), result))
            self._came.notify_all()


@contextmanager
def watched_job(
    fleet: AgentFleet, folder: Path, clauses: str, *, observer: str, windows: str = "1 SECOND", rate: float = RATE
) -> Iterator[tuple[str, WindowWatch]]:
    """A job with these windows and clauses on all agents while their servers log; its name, and its windows as the
    observer gets them.
    """
    with Replay(folder / "sample", live_logs(fleet, folder), rate):
        app = f"recovery-{time.time_ns()}"
        text = f"{QUERY} WINDOWING {windows} GRACE {GRACE_S:g} SECONDS {clauses}"
        with elf.connect_sync(fleet.socket(observer)) as client:
            with client.query(text, app=app, detach=True) as job:
                until_all_run(job, len(fleet.names), START_TIMEOUT_S)
            watch = WindowWatch(fleet.socket(observer), app)
            try:
                yield app, watch
            finally:
                watch.close()
                with suppress(ClientError):  # it tells why nothing could be measured, not this
                    client.stop(app)


def is_complete(agents: int, since_s: float = 0.0) -> Callable[[Publication], bool]:
    """Whether a window ended after `since_s` has that many agents as a whole, and as many are expected."""

    def is_it(found: Publication) -> bool:
        counts = (found.result.contributors, found.result.expected)
        return found.window_end_s > since_s and counts == (agents, agents) and not found.result.partial

    return is_it


def has_all(agents: int, due_s: float) -> Callable[[Publication], bool]:
    """Whether so many agents are in a window as a whole whose end and grace were due after a time."""

    def is_it(found: Publication) -> bool:
        is_later = found.window_end_s + GRACE_S > due_s
        return is_later and found.result.contributors >= agents and not found.result.partial

    return is_it
