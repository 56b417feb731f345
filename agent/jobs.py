"""An agent's part in one job: worker and combiner, as far as it plays them, through all of the job's epochs.

A part is *installed* once the master of the epoch has told it the function and, for a worker, its number. With each new
epoch it enrols anew: the combiner starts over at the new master's frontier, and the worker hands in again what it has
sealed beyond that. Nothing that others combined under the old master is used, so nothing can count twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import cbt
from agent import contributors
from agent.combiner import Combiner, Span
from agent.epochs import Epoch
from agent.feeds_wanted import Feed, FeedKey
from agent.function import JobFunction
from agent.master import Master
from agent.messages import Enrolled, Ready, Snapshot, Submit
from agent.panes import COUNTERS_SCHEMA, END, FIRST_PANE, Run, add_counters
from agent.parsing import NO_WATERMARK_MS, Parsed, SourceColumn
from agent.uplink import Uplink
from agent.watermark import FUTURE_MS, Watermark
from agent.worker import SELF, Worker
from overlay import Id, Peer

FRAME_BYTES_MAX = 1 << 30
"""Largest state of one run after decompression."""
HELD_MAX = 256
HELD_BYTES_MAX = 128 << 20
"""Snapshots an agent holds while the function is on its way; more are refused."""
SNAPSHOT_BYTES_MAX = 60 << 20
"""Largest run that fits a message; what is larger goes without its content, and its contributors as missing."""


class JobPart:
    """State of one job on one agent; knows no overlay and sends nothing itself."""

    def __init__(self, app_id: Id, node_id: int) -> None:
        self.app_id = app_id
        self.works = False
        self.forwards = False
        self.master: Master | None = None
        """The job's master, if it is here."""
        self.master_peer: Peer | None = None
        self.epoch: Epoch | None = None
        self.job: Submit | None = None
        self.function: JobFunction | None = None
        self.number: int | None = None
        self.version = 0
        self.refused = 0
        self.feeds: dict[FeedKey, Feed] = {}
        self.committed = FIRST_PANE
        self.last_pane: int | None = None
        """Where a worker that leaves ends."""
        self.handed_in: Epoch | None = None
        self._node_id = node_id
        self._worker: Worker | None = None
        self._watermark = Watermark(())
        self._children: dict[int, None] = {}
        self._combiner: Combiner | None = None
        self._held: list[tuple[int, Snapshot]] = []
        self._held_bytes = 0
        self._uplink = Uplink()

    @property
    def is_needed(self) -> bool:
        """Whether this agent has to be in the job's tree."""
        return self.works or self.forwards or self.master is not None

    # Epochs.

    def begin_epoch(self, epoch: Epoch, master: Peer) -> None:
        """Turns to another master. Another job of the same name begins from nothing."""
        if self.epoch is not None and not epoch.is_same_job(self.epoch):
            self.job = self.function = self._worker = None
            self.feeds, self._watermark = {}, Watermark(())
            self.committed = FIRST_PANE
        self.epoch, self.master_peer, self.number = epoch, master, None
        self._combiner, self._uplink = None, Uplink()

    @property
    def is_installed(self) -> bool:
        return self._combiner is not None

    @property
    def is_working(self) -> bool:
        return self._worker is not None

    def install(self, message: Enrolled) -> None:
        """Takes the function and starts to combine at the master's frontier. Raises `query.PlanError`."""
        if self.function is None:
            self.function = JobFunction.from_wire(message.job.plan, message.job.since_ms, message.job.until_ms)
        self.job, self.version = message.job, message.version
        self._combiner = Combiner(self.function.combine, frontier=message.frontier)
        for child in self._children:
            self._combiner.add_source(child)
        held, self._held, self._held_bytes = self._held, [], 0
        for child, snapshot in held:
            self.child_snapshot(child, snapshot)

    def start_working(self, message: Enrolled, feeds: Iterable[Feed], wall_ms: int) -> Ready:
        """Takes a number and contributes; what was sealed in an earlier epoch is handed in again."""
        assert self.function is not None
        assert self._combiner is not None
        assert message.number is not None
        assert self.epoch is not None
        self.number = message.number
        if self._worker is None:
            self._worker = Worker(self.function)
            self.feeds = {feed.key: feed for feed in feeds}
            self._watermark = Watermark(self.feeds)
            self._begin(message.begins, wall_ms)
        self._combiner.add_source(self._node_id)
        for run in self._worker.after(message.frontier):
            self._combine_own(run)
        return self.ready_message()

    def ready_message(self, instead_of: int | None = None) -> Ready:
        assert self._worker is not None
        assert self.epoch is not None
        assert self.number is not None
        return Ready(self.app_id, self.epoch, self.number, self.version, self._worker.first_pane, instead_of)

    def _begin(self, earliest: int, wall_ms: int) -> None:
        """Begins to work, but not before the earliest pane. An event that is older than the window under way and the
        grace is not from before the job: its server's clock is wrong, and its window must not look complete."""
        assert self._worker is not None
        assert self.job is not None
        first = self._first_pane(wall_ms)
        size = self._worker.function.plan.window_ms or 0
        from_now = first != FIRST_PANE
        self._worker.begin_at(max(earliest, first), wall_ms - size - self.job.grace_ms if from_now else FIRST_PANE)

    def _first_pane(self, wall_ms: int) -> int:
        """Where feeds that begin at the end of their streams can know everything: the next pane to start."""
        assert self.function is not None
        size = self.function.plan.window_ms
        if size is None or any(feed.bounded or feed.start == "beginning" for feed in self.feeds.values()):
            return FIRST_PANE
        return wall_ms // size * size + size

    # What the feeds bring.

    @property
    def columns(self) -> list[SourceColumn]:
        """The source columns the function reads."""
        assert self.function is not None
        return [SourceColumn(column.name, column.path, column.type) for column in self.function.plan.columns]

    def insert(self, key: FeedKey, parsed: Parsed, wall_ms: int) -> None:
        """Takes a parsed block of one of the job's feeds."""
        assert self._worker is not None
        needed = {column.name for column in self.columns}
        malformed = parsed.malformed
        newest: int | None = None
        for frame in parsed.frames:
            # A shared feed was read before this job came to it: what is without its columns is not for it.
            if frame.is_empty() or not needed.issubset(frame.columns):
                continue
            if not self.feeds[key].bounded:
                last = frame["@time"].max()
                if isinstance(last, int) and last > wall_ms + FUTURE_MS:
                    believed = frame.filter(frame["@time"] <= wall_ms + FUTURE_MS)
                    malformed += frame.height - believed.height
                    frame = believed
                    last = frame["@time"].max()
                newest = max((time for time in (newest, last) if isinstance(time, int)), default=None)
            self._worker.insert(frame)
        self._worker.count_malformed(malformed)
        if parsed.watermark_ms is not None:  # of many files, some may hold much older events than others
            is_known = parsed.watermark_ms != NO_WATERMARK_MS
            newest = min(parsed.watermark_ms, wall_ms + FUTURE_MS) if is_known else None
        self._watermark.saw(key, newest)

    def opened(self, key: FeedKey, wall_ms: int) -> Ready | None:
        """A feed gives a sign of life. If that is late, the first pane is a later one: then the master has to know."""
        if not self._watermark.open(key) or self._worker is None:
            return None
        before = self._worker.first_pane
        self._begin(FIRST_PANE, wall_ms)
        if self._worker.first_pane == before or not self.is_installed:
            return None
        self._take_fresh()
        return self.ready_message(instead_of=before)

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """A feed is at its end for now."""
        self._watermark.caught_up(key, wall_ms)

    def end_of_feed(self, key: FeedKey) -> None:
        """A bounded feed is over."""
        self._watermark.ended(key)

    # Sealing.

    def start_sealing(self) -> None:
        """Begins to seal what the watermark allows, if anything."""
        worker = self._worker
        if worker is None or worker.is_sealing or self.job is None or worker.frontier == END:
            return
        upto: int | None = None
        if self.last_pane is not None:
            upto = self.last_pane
        elif self.job.bounded:
            upto = END if self._watermark.has_ended else None
        elif size := worker.function.plan.window_ms:
            upto = self._watermark.sealable_upto(size, self.job.grace_ms)
        if upto is not None and upto > worker.frontier:
            worker.start_sealing(upto)

    # Leaving.

    def finish_early(self) -> None:
        """Seals all it has of a live job, without grace: nothing more is to be expected after its last pane."""
        worker = self._worker
        if worker is None or self.job is None or self.job.bounded or self.last_pane is not None:
            return
        size = worker.function.plan.window_ms
        newest = worker.newest_pane()
        if size and self._watermark.value is not None:
            newest = max(self._watermark.value // size * size, worker.frontier if newest is None else newest)
        self.last_pane = worker.frontier if newest is None else max(newest, worker.frontier)
        self.feeds = {}

    def hand_in(self) -> bool:
        """Sends up all that was sealed and is not out, as it is; whether everything is sealed and this is a new epoch.

        Who comes after its children may not have reached those panes yet: they will bring theirs to another parent.
        """
        worker = self._worker
        if worker is None or worker.is_sealing or self.number is None or self.handed_in == self.epoch:
            return False
        if self._combiner is None or (self.last_pane is not None and worker.frontier < self.last_pane):
            return False
        self.handed_in = self.epoch
        self._combiner.remove_source(self._node_id)
        self._uplink.loosen()
        for run in worker.after(self.committed):
            if run.contributors == SELF:
                self._uplink.keep(self._message(replace(run, contributors=1 << self.number), again=True))
        return True

    @property
    def has_handed_in(self) -> bool:
        """Whether nothing is lost if this agent ends now."""
        if self._worker is None:
            return True
        return self.handed_in is not None and self.handed_in == self.epoch and self._uplink.is_confirmed

    @property
    def is_sealing(self) -> bool:
        """Whether `seal_next` has something to do."""
        return self._worker is not None and self._worker.is_sealing and not self._worker.is_blocked

    @property
    def sealed_upto(self) -> int:
        return self._worker.frontier if self._worker else FIRST_PANE

    @property
    def late(self) -> int:
        """Events that came for panes that were sealed."""
        return self._worker.late if self._worker else 0

    @property
    def memory_bytes(self) -> int:
        return self._worker.memory_bytes if self._worker else 0

    def seal_next(self) -> None:
        """Moves the worker's next run into the combiner."""
        assert self._worker is not None
        self._worker.seal_next()
        self._take_fresh()

    def _take_fresh(self) -> None:
        if self._worker is not None and self.number is not None and self._combiner is not None:
            for run in self._worker.fresh():
                self._combine_own(run)

    def _combine_own(self, run: Run) -> None:
        assert self._combiner is not None
        assert self.number is not None
        mine = replace(run, contributors=1 << self.number) if run.contributors == SELF else run
        self._take_loose(self._combiner.add(self._node_id, mine))

    # The tree.

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

    def child_snapshot(self, child: int, message: Snapshot) -> bool:
        """Takes a child's run; whether it was of this epoch, or of one that is on its way here.

        A run that is not sound still moves its child on, only without content: its agents are missing then, and
        nobody waits for them for ever.
        """
        if self.epoch is None or message.epoch > self.epoch or (self._combiner is None and message.epoch == self.epoch):
            return self._hold(child, message)
        if message.epoch != self.epoch or message.version != self.version:
            self.refused += 1
            return False
        assert self._combiner is not None
        if message.again:
            self._combiner.move_on(child, message.upto)
            self._take_again(message)
            return True
        assert self.function is not None
        run = self._sound_run(message, self.function)
        self.refused += run is None
        refused = self._combiner.refused
        late = self._combiner.add(child, run or _without_content(message.after, message.upto, self.function))
        self.refused += self._combiner.refused - refused
        self._take_loose(late)
        return True

    def _hold(self, child: int, message: Snapshot) -> bool:
        size = len(message.state) + len(message.counters)
        if len(self._held) >= HELD_MAX or self._held_bytes + size > HELD_BYTES_MAX:
            self.refused += 1
            return False
        self._held.append((child, message))
        self._held_bytes += size
        return True

    def take_again(self, message: Snapshot) -> bool:
        """At the root: a run that comes straight from where it was made."""
        if self.master is None or self._combiner is None or message.epoch != self.epoch or not message.again:
            self.refused += 1
            return False
        self._take_again(message)
        return True

    def _take_again(self, message: Snapshot) -> None:
        """Only the root looks into what is sent again; everyone else passes it on as it is."""
        if self.master is None:
            self._uplink.keep(message)
            return
        assert self.function is not None
        run = self._sound_run(message, self.function)
        self.refused += run is None
        self._take_loose(run)

    def _take_loose(self, run: Run | None) -> None:
        if run is None:
            return
        if self.master is None:
            self._uplink.keep(self._message(run, again=True))
            return
        assert self._combiner is not None
        self._combiner.add_loose(run)

    def _sound_run(self, message: Snapshot, function: JobFunction) -> Run | None:
        """The run in a message that may hold anything; None if it cannot be combined with others."""
        members = contributors.from_bytes(message.contributors)
        if self.master is not None and members & ~self.master.roster.known():
            return None
        try:
            state = cbt.decode_frame(message.state, function.state_schema, bytes_max=FRAME_BYTES_MAX)
            counters = cbt.decode_frame(message.counters, COUNTERS_SCHEMA, bytes_max=FRAME_BYTES_MAX)
        except cbt.FrameError:
            return None
        run = Run(message.after, message.upto, members, state, counters)
        return run if run.is_sound(function.plan.window_ms) else None

    @property
    def waiting_runs(self) -> int:
        """Runs that wait here for those of other sources."""
        return self._combiner.waiting_runs if self._combiner is not None else 0

    def due(self) -> list[Span]:
        """The panes that every source below has reached, and who is in them."""
        return self._combiner.due() if self._combiner is not None else []

    def completed(self) -> list[Run]:
        """Combined runs that every source below has reached."""
        return self._combiner.ready() if self._combiner is not None else []

    def pass_on(self) -> None:
        """Puts completed runs on the way up; not at the root."""
        for run in self.completed():
            self._uplink.keep(self._message(run))

    def unsent(self, now: float) -> list[Snapshot]:
        """What the parent has to get now."""
        return self._uplink.unsent(now)

    def parent_changed(self) -> None:
        """The next `unsent` is for another parent."""
        self._uplink.parent_changed()

    def confirmed(self, after: int, upto: int) -> None:
        """The parent has a snapshot."""
        self._uplink.confirmed(after, upto)

    def _message(self, run: Run, *, again: bool = False) -> Snapshot:
        message = self._encode(run, again=again)
        if len(message.state) + len(message.counters) > SNAPSHOT_BYTES_MAX:
            assert self.function is not None
            return self._encode(_without_content(run.after, run.upto, self.function), again=again)
        return message

    def _encode(self, run: Run, *, again: bool) -> Snapshot:
        assert self.epoch is not None
        return Snapshot(
            self.app_id,
            self.epoch,
            self.version,
            run.after,
            run.upto,
            contributors.to_bytes(run.contributors),
            cbt.encode_frame(run.state),
            cbt.encode_frame(run.counters),
            again,
        )

    def commit(self, frontier: int) -> None:
        """Frees what the master has published."""
        if frontier > self.committed:
            self.committed = frontier
        self._uplink.commit(self.committed)
        if self._worker is not None:
            self._worker.commit(self.committed)


def _without_content(after: int, upto: int, function: JobFunction) -> Run:
    """What stands for a run that cannot be used: nobody's."""
    return Run(after, upto, 0, function.combine([]), add_counters([]))
