"""Simulated agents that remember, whose events all have a number of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
from coded_jobs import CodedJob, Programs, let_run_code
from recording_client import client_of
from remembering_fleet import RememberingFleet
from schedules import CODED, JOBS
from simulated_fleet import Reader, Server, key_of

from agent import Agent, StreamOptions
from agent.parsing import Parsed
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, Node

JOB = "one"
STARTED_S = 10.0
COPIED_S = 1.0
"""Time from which on what has left an agent is with its neighbours."""
SLOW_DISK_S = 1.5
"""Time that a slow disk takes for what was given to it."""
STEP_SLACK_MS = 3000
"""Events that are logged so shortly before a step of their server's clock may be read after it, and be late."""
_SCHEMA = {"@time": pl.Int64, "product": pl.String, "agent": pl.String, "number": pl.Int64}


@dataclass(frozen=True)
class Logged:
    """An event's way into a log: the true time, and whether it was logged soon, by a clock that had not stepped."""

    true_ms: int
    is_prompt: bool


class OracleFleet(RememberingFleet):
    """Agents with disks, and a follower without logs that is far from every root, so that little happens to it."""

    def __init__(self, seed: int, late: float, job: str = "tumbling") -> None:
        super().__init__(seed, disks=True)
        self.late = late
        self.coded = CodedJob(job, JOBS[job]) if job in CODED else None
        self.app = JOB if self.coded is None else self.coded.app
        """The job whose windows are judged by the events in them, and its id."""
        self.key: Id = key_of(JOB) if self.coded is None else self.coded.key
        self.programs: dict[str, Programs] = {}
        self.full_disks: set[str] = set()
        self.slow_disks: dict[str, float] = {}
        """Agent → when its disk is done with what was given to it."""
        self.logged: dict[str, list[Logged]] = {}
        self.stepped_ms: dict[str, int] = {}
        """Agent → true time up to which its clock is suspect."""
        self.steps_ms: dict[str, list[int]] = {}
        """Agent → true times at which its clock stepped."""
        self.read_from: dict[str, list[int]] = {}
        """Agent → the numbers of the events where its readings began."""
        self.has_disk_trouble: set[str] = set()
        self.follower = self.add(node_id=self.key ^ (1 << 127))
        self.deaths: dict[str, list[int]] = {}
        """Agent → true times at which it died."""
        self.copied_upto: dict[str, int] = {}
        """Agent → the last pane that had left it a while before it died, for its neighbours to have a copy."""
        self._left: dict[str, deque[tuple[float, int]]] = {}
        self.misled_upto: dict[str, int] = {}
        """Agent that has started without a disk, with its clock ahead → the latest time that it has believed."""

    # Events.

    def _parsed(self, server: Server, position: int, events: list[tuple[int, str]]) -> Parsed:
        times, products = [time for time, _ in events], [product for _, product in events]
        numbers = range(position, position + len(events))
        columns = {"@time": times, "product": products, "agent": [server.name] * len(events), "number": list(numbers)}
        return Parsed((pl.DataFrame(columns, schema=_SCHEMA),), malformed=0)

    def _read_on(self, server: Server, reader: Reader) -> None:
        begins = reader.position < 0 and self.now >= reader.opens_at
        before = len(server.log)
        super()._read_on(server, reader)
        if begins:
            start = reader.position if reader.feed.start == "remembered" else before
            self.read_from.setdefault(server.name, []).append(start)

    def write(self, server: Server, count: int, *, late_ms: int = 0) -> None:
        late_ms = late_ms or (self.random.randint(1500, 5000) if self.random.random() < self.late else 0)
        super().write(server, count, late_ms=late_ms)
        is_prompt = not late_ms and self.wall_ms > self.stepped_ms.get(server.name, FIRST_PANE)
        self.logged.setdefault(server.name, []).extend([Logged(self.wall_ms, is_prompt)] * count)

    # Jobs.

    def key_of(self, name: str) -> Id:
        coded = {} if self.coded is None else {job.name: job.app_id for job in self.coded.submits}
        return coded.get(name) or super().key_of(name)

    def begin(self, text: str) -> None:
        """Submits the job, and waits for it; a job is submitted when its stages run."""
        if self.coded is None:
            self.submit(self.app, self.follower, text)
        for job in self.coded.submits if self.coded is not None else ():
            client_of(self.follower.agent).submit(job, self.now, self.wall_ms)
            self.run_until(lambda key=job.app_id: self.follower.agent.directory.get(key) is not None, STARTED_S)  # type: ignore[misc]

    def change(self, text: str) -> None:
        """Updates the job."""
        if self.coded is None:
            self.update(self.app, self.follower, text)
        else:
            client_of(self.follower.agent).update(self.coded.update(text), self.now, self.wall_ms)

    def _agent(self, name: str, node: Node, streams: dict[str, StreamOptions], disk: Any = None) -> Agent:
        agent = super()._agent(name, node, streams, disk)
        if self.coded is not None:
            let_run_code(agent)
            self.programs[name] = Programs()
        return agent

    # Agents.

    def _drive(self, server: Server) -> None:
        super()._drive(server)
        job = server.agent.jobs.get(self.key) if server.is_up else None
        if job is not None and isinstance(job.pipeline, Pipeline):
            left = self._left.setdefault(server.name, deque())
            left.append((self.now, job.pipeline.consumer.outlet.released_upto))
            while left[0][0] < self.now - COPIED_S:
                left.popleft()
        lead_ms = server.agent.ingest.clock.lead_ms
        if server.name in self.misled_upto and server.is_up and lead_ms is not None:
            believed = round(self.now * 1000 + lead_ms)
            if believed > self.wall_ms:
                self.misled_upto[server.name] = max(believed, self.misled_upto[server.name])
        if self.coded is not None and server.is_up and self.now >= server.stalled_until:
            self.programs[server.name].turn(server.agent, self.now, self.wall_of(server))

    def _use_disk(self, server: Server) -> None:
        """A full disk says so of each record; a slow one takes its time."""
        disk = server.disk
        assert disk is not None
        if server.name in self.full_disks and not server.is_to_start and disk.waiting:
            lost, disk.waiting[:] = len(disk.waiting), []
            server.agent.jobs_stored(lost, self.now, self.wall_of(server))
        elif server.name in self.slow_disks and disk.waiting and not server.is_to_start:
            done = self.slow_disks[server.name] or self.now + SLOW_DISK_S
            self.slow_disks[server.name] = 0.0 if self.now >= done else done
            if self.now >= done:
                super()._use_disk(server)
        else:
            super()._use_disk(server)

    def _takes(self, server: Server) -> bool | None:
        disk = self.sealed[server.name]
        if server.name in self.full_disks:
            return False
        if server.name not in self.slow_disks:
            return None if server.name in self.has_disk_trouble else super()._takes(server)
        disk.done_at = disk.done_at or self.now + SLOW_DISK_S
        if self.now < disk.done_at:
            return None
        disk.done_at = None
        return True

    def crash(self, server: Server) -> None:
        self.copied_upto[server.name] = next(iter(self._left.get(server.name, ())), (0.0, FIRST_PANE))[1]
        super().crash(server)
        self.deaths.setdefault(server.name, []).append(self.wall_ms)

    def restart(self, server: Server) -> None:
        """One that has nothing to compare its clock with believes it."""
        if server.name not in self.leads_ms and server.clock_off_ms > 0:
            self.misled_upto.setdefault(server.name, FIRST_PANE)
        super().restart(server)

    def lose_disk(self, server: Server) -> None:
        super().lose_disk(server)
        assert server.disk is not None
        server.disk.durable.clear()

    def follow(self, after: int | None) -> None:
        """The follower follows the job; a new process goes on where the one before it was."""
        client_of(self.follower.agent).follow(self.key, after, self.now)

    def run_until(self, condition: Callable[[], bool], seconds_max: float) -> None:
        """Lets time pass until something is so; AssertionError if it does not come about."""
        deadline = self.now + seconds_max
        while not condition():
            assert self.now < deadline, f"seed {self.seed}: in vain"
            self.run(self.now + 0.5)
