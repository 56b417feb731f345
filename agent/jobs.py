"""An agent's part in one job: worker, combiner and master, as far as it plays them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cbt
from agent import contributors
from agent.combiner import Combiner
from agent.function import JobFunction
from agent.master import Master
from agent.messages import Commit, Enrolled, Installed, Snapshot
from agent.panes import COUNTERS_SCHEMA, END, FIRST_PANE, Run, add_counters
from agent.parsing import Parsed, SourceColumn
from agent.worker import Worker

FRAME_BYTES_MAX = 1 << 30
"""Largest state of one run after decompression."""
HELD_MAX = 256
"""Snapshots an agent holds while the function is on its way; more are refused."""
SNAPSHOT_BYTES_MAX = 60 << 20
"""Largest run that fits a message; what is larger goes without its content, and its contributors as missing."""


class JobPart:
    """State of one job on one agent; knows no overlay and sends nothing itself."""

    def __init__(self, app_id: int, node_id: int) -> None:
        self.works = False
        self.forwards = False
        self.master: Master | None = None
        self.function: JobFunction | None = None
        self.installed = 0
        self._app_id = app_id.to_bytes(16, "big")
        self._self = node_id
        self._master_id = b""
        self._version = 0
        self._worker: Worker | None = None
        self._sealing: Iterator[Run] | None = None
        self._children: dict[int, None] = {}
        self._combiner: Combiner | None = None
        self._held: list[tuple[int, Snapshot]] = []
        self._uncommitted: list[Snapshot] = []
        self._committed = FIRST_PANE

    def install(self, message: Enrolled, master_id: int) -> int:
        """Takes the function and, for a worker, its number; a forwarder may become a worker. Repeated: nothing happens.

        Returns how many held runs were refused. Raises `query.PlanError`.
        """
        refused = 0
        if self.function is None:
            function = JobFunction.from_wire(message.plan, message.since_ms, message.until_ms)
            refused = self._take_function(function, message, master_id)
        if self._master_id != _id(master_id):
            return 1
        self._commit(message.frontier)
        if message.number is not None and self.works and self._worker is None:
            self._start_worker(message.number)
        return refused

    def _take_function(self, function: JobFunction, message: Enrolled, master_id: int) -> int:
        self.function, self._version, self._master_id = function, message.version, _id(master_id)
        self._combiner = Combiner(function.combine, frontier=message.frontier)
        for child in self._children:
            self._combiner.add_source(child)
        if message.number is not None and self.works:
            self._start_worker(message.number)
        held, self._held = self._held, []
        return sum(self.child_snapshot(child, snapshot) for child, snapshot in held)

    def _start_worker(self, number: int) -> None:
        assert self.function is not None
        assert self._combiner is not None
        self._worker = Worker(self.function, number)
        self._combiner.add_source(self._self)
        self.installed |= 1 << number

    def leave(self) -> None:
        """Takes no part in the job any more, as far as it has not begun."""
        self.works = self.forwards = False
        self._held.clear()

    def works_on(self, stream: str) -> bool:
        return self._worker is not None and self._worker.function.plan.stream in ("*", stream)

    def needs(self) -> Sequence[SourceColumn]:
        """The source columns the function reads."""
        assert self.function is not None
        return [SourceColumn(column.name, column.path, column.type) for column in self.function.plan.columns]

    def insert(self, parsed: Parsed) -> None:
        assert self._worker is not None
        for frame in parsed.frames:
            self._worker.insert(frame)
        self._worker.count_malformed(parsed.malformed)

    def start_sealing(self) -> None:
        if self._worker is not None and self._sealing is None:
            self._sealing = self._worker.seal_all()

    @property
    def is_sealing(self) -> bool:
        return self._sealing is not None and self.sealed_upto < END

    @property
    def sealed_upto(self) -> int:
        return self._worker.frontier if self._worker else FIRST_PANE

    def seal_next(self) -> None:
        """Moves the worker's next run into the combiner."""
        assert self._sealing is not None
        assert self._combiner is not None
        self._combiner.add(self._self, next(self._sealing))

    def add_child(self, node_id: int) -> None:
        self._children[node_id] = None
        if self._combiner is not None:
            self._combiner.add_source(node_id)

    def remove_child(self, node_id: int) -> None:
        self._children.pop(node_id, None)
        if self._combiner is not None:
            self._combiner.remove_source(node_id)

    @property
    def has_children(self) -> bool:
        return bool(self._children)

    def child_installed(self, message: Installed) -> int:
        """Notes who runs the function below a child; returns how many messages were refused (0 or 1)."""
        if self.function is not None and message.master != self._master_id:
            return 1
        self.installed |= contributors.from_bytes(message.agents)
        return 0

    def child_snapshot(self, child: int, message: Snapshot) -> int:
        """Takes a child's run; returns how many were refused (0 or 1).

        A run that is not sound still moves its child on, only without content: its agents are missing then, and
        nobody waits for them for ever.
        """
        if self._combiner is None or self.function is None:
            if len(self._held) >= HELD_MAX:
                return 1
            self._held.append((child, message))
            return 0
        run = self._sound_run(message, self.function)
        before = self._combiner.refused
        self._combiner.add(child, run or _without_content(message.after, message.upto, self.function))
        return int(run is None or self._combiner.refused > before)

    def _sound_run(self, message: Snapshot, function: JobFunction) -> Run | None:
        """The run in a message that may hold anything; None if it cannot be combined with others."""
        members = contributors.from_bytes(message.contributors)
        if (message.master, message.version) != (self._master_id, self._version):
            return None
        if self.master is not None and members & ~contributors.everyone(len(self.master.roster)):
            return None
        try:
            state = cbt.decode_frame(message.state, function.state_schema, bytes_max=FRAME_BYTES_MAX)
            counters = cbt.decode_frame(message.counters, COUNTERS_SCHEMA, bytes_max=FRAME_BYTES_MAX)
        except cbt.FrameError:
            return None
        run = Run(message.after, message.upto, members, state, counters)
        return run if run.is_sound(function.plan.window_ms) else None

    def completed(self) -> list[Run]:
        """Combined runs that every source below has reached."""
        return self._combiner.ready() if self._combiner is not None else []

    def keep(self, run: Run) -> Snapshot:
        """The run as a message, kept until the master has committed it."""
        message = self._message(run)
        if len(message.state) + len(message.counters) > SNAPSHOT_BYTES_MAX:
            assert self.function is not None
            message = self._message(_without_content(run.after, run.upto, self.function))
        if message.upto > self._committed:
            self._uncommitted.append(message)
        return message

    def _message(self, run: Run) -> Snapshot:
        return Snapshot(
            self._app_id,
            self._master_id,
            self._version,
            run.after,
            run.upto,
            contributors.to_bytes(run.contributors),
            cbt.encode_frame(run.state),
            cbt.encode_frame(run.counters),
        )

    def commit(self, message: Commit) -> int:
        """Frees what the master has published; returns how many messages were refused (0 or 1)."""
        if self.function is not None and message.master != self._master_id:
            return 1
        self._commit(message.frontier)
        return 0

    def _commit(self, frontier: int) -> None:
        self._committed = max(self._committed, frontier)
        self._uncommitted = [message for message in self._uncommitted if message.upto > self._committed]

    def installed_message(self) -> Installed:
        return Installed(self._app_id, self._master_id, self._version, contributors.to_bytes(self.installed))

    def for_new_parent(self) -> list[Installed | Snapshot]:
        """What a parent that has just become ours has to know."""
        return [self.installed_message(), *self._uncommitted] if self.function is not None else []


def _without_content(after: int, upto: int, function: JobFunction) -> Run:
    """What stands for a run that cannot be used: nobody's."""
    return Run(after, upto, 0, function.combine([]), add_counters([]))


def _id(node_id: int) -> bytes:
    return node_id.to_bytes(16, "big")
