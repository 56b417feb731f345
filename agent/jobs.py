"""An agent's part in one job: worker, combiner and master, as far as it plays them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cbt
from agent import contributors
from agent.combiner import Combiner
from agent.function import JobFunction
from agent.master import Master
from agent.messages import Enrolled, Installed, Snapshot
from agent.panes import COUNTERS_SCHEMA, END, FIRST_PANE, Run
from agent.parsing import Parsed, SourceColumn
from agent.worker import Worker

FRAME_BYTES_MAX = 1 << 30
"""Largest state of one run after decompression."""
HELD_MAX = 256
"""Snapshots a forwarder holds while the function is on its way; more are refused."""


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
        self._version = 0
        self._worker: Worker | None = None
        self._sealing: Iterator[Run] | None = None
        self._children: dict[int, None] = {}
        self._combiner: Combiner | None = None
        self._held: list[tuple[int, Snapshot]] = []
        self._uncommitted: list[Snapshot] = []

    def install(self, message: Enrolled) -> None:
        """Takes the function and, for a worker, its number. Raises `query.PlanError`; repeated: nothing happens."""
        if self.function is not None:
            return
        self.function = JobFunction.from_wire(message.plan, message.since_ms, message.until_ms)
        self._version = message.version
        self._combiner = Combiner(self.function.combine)
        for child in self._children:
            self._combiner.add_source(child)
        if message.number is not None and self.works:
            self._worker = Worker(self.function, message.number)
            self._combiner.add_source(self._self)
            self.installed |= 1 << message.number
        held, self._held = self._held, []
        for child, snapshot in held:
            self.child_snapshot(child, snapshot)

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

    def child_installed(self, message: Installed) -> None:
        self.installed |= contributors.from_bytes(message.agents)

    def child_snapshot(self, child: int, message: Snapshot) -> int:
        """Takes a child's run; returns how many were refused (0 or 1): malformed, repeated, or too early."""
        if self._combiner is None or self.function is None:
            if len(self._held) >= HELD_MAX:
                return 1
            self._held.append((child, message))
            return 0
        try:
            state = cbt.decode_frame(message.state, self.function.state_schema, bytes_max=FRAME_BYTES_MAX)
            counters = cbt.decode_frame(message.counters, COUNTERS_SCHEMA, bytes_max=FRAME_BYTES_MAX)
        except cbt.FrameError:
            return 1
        members = contributors.from_bytes(message.contributors)
        before = self._combiner.refused
        self._combiner.add(child, Run(message.after, message.upto, members, state, counters))
        return self._combiner.refused - before

    def completed(self) -> list[Run]:
        """Combined runs that every source below has reached."""
        return self._combiner.ready() if self._combiner is not None else []

    def keep(self, run: Run) -> Snapshot:
        """The run as a message, kept until the master has committed it."""
        message = Snapshot(
            self._app_id,
            self._version,
            run.after,
            run.upto,
            contributors.to_bytes(run.contributors),
            cbt.encode_frame(run.state),
            cbt.encode_frame(run.counters),
        )
        self._uncommitted.append(message)
        return message

    def commit(self, frontier: int) -> None:
        """Frees what the master has published."""
        self._uncommitted = [message for message in self._uncommitted if message.upto > frontier]

    def installed_message(self) -> Installed:
        return Installed(self._app_id, self._version, contributors.to_bytes(self.installed))

    def for_new_parent(self) -> list[Installed | Snapshot]:
        """What a parent that has just become ours has to know."""
        return [self.installed_message(), *self._uncommitted] if self.installed else []
