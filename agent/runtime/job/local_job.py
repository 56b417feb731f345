"""Runs one job on one agent: its pipeline of events and its nodes in the trees, through all of the job's epochs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import query
from agent.runtime.function.consolidated_windows import at_edges
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import FunctionCache, Versions
from agent.runtime.ingest.feed import Feed, FeedKey, StreamOptions, feeds_of_job
from agent.runtime.ingest.mapped import Send
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pao_handles import PaoHandle, PaoHandles
from agent.runtime.ingest.pipelines import AnyPipeline, columns_read, new_pipeline
from agent.runtime.job.lifecycle import INSTALLED_STATES, LocalJobEvent, LocalJobState, next_state
from agent.runtime.job.program_table import Program
from agent.runtime.job.root_sink import RootSink
from agent.runtime.job.state_folds import StateFolds
from agent.runtime.messages.jobs import Announce, Enrolled, Lagging, Leap, Ready, Snapshot
from agent.runtime.messages.versions import PrepareVersion, Version, VersionPrepared
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import PANES_COUNTED_MAX
from agent.runtime.model.incomplete import Publication, WireSpan, from_wire
from agent.runtime.model.panes import FIRST_PANE, Counts, Run, total
from agent.runtime.model.placement import NOT_MOVED, KeyMoves, groups_of
from agent.runtime.reduce.parts import PRODUCTION, RunLimits
from agent.runtime.reduce.retransmit import AckLatency
from agent.runtime.reduce.snapshot import (
    EarlySnapshots,
    StateEncoder,
    reason_too_large,
    run_of,
    snapshot_of,
    without_content,
)
from agent.runtime.reduce.straggler import LeapTimer, StragglerPolicy
from agent.runtime.reduce.tree_node import RootOf, TreeNodes
from overlay import Id, Peer

OnLeaving = Callable[["LocalJob", Sequence[Run]], None]
"""Takes the pieces of each run of a job's worker that may leave this agent now."""


class LocalJob:
    """State of one job on one agent (see `agent.runtime.job.lifecycle`); knows no overlay and sends nothing itself.
    `on_work` is called when the job has runs to combine or to send."""

    on_leaving: OnLeaving | None = None
    withdraws = False
    """Whether this agent has no events of the job any more, and is taking leave of its master."""
    encoder: StateEncoder | None = None
    """Keeps states encoded while copies of them are made."""
    has_owners, moved = False, NOT_MOVED
    heard: Announce | None = None  # the last announcement, if all agents run the job
    joined_at: int | None = None
    """The first pane of a worker that has joined a job which others had begun; None: it may have been there before."""
    _doubted: int | None = None
    """The version that is being prepared, if the last announcement did not know of it."""

    def __init__(
        self,
        app_id: Id,
        node_id: int,
        ingest: OperatorPool,
        functions: FunctionCache,
        latency: AckLatency,
        on_work: Callable[[LocalJob], None],
        limits: RunLimits = PRODUCTION,
    ) -> None:
        self.app_id = app_id
        self.state = LocalJobState.UNANNOUNCED
        self.nodes = TreeNodes(node_id, latency, limits, ingest.time)
        self._limits = limits
        self._ingest = ingest
        self._functions = functions
        self._on_work = on_work
        self.works = False
        """Whether this agent has events of the job."""
        self.forwards = False
        """Whether this agent has children in the job's trees."""
        self.root: RootSink | None = None  # the job's master, if it is here
        self.master_peer: Peer | None = None
        self.epoch: JobEpoch | None = None
        self.versions: Versions | None = None
        self.number: int | None = None
        """The worker's number on the roster in this epoch."""
        self.number_before: int | None = None
        """The worker's number in the epoch before."""
        self.has_departed = self.has_left = False
        """Whether the master took leave of this worker, which works on and enrols anew; or knows that it leaves."""
        self._numbered_from = FIRST_PANE
        """The first pane that this worker seals under its number."""
        self.refused = self.oversized = 0
        """Messages, and parts of runs, not taken; runs that went without their content for being too large."""
        self.pipeline: AnyPipeline | None = None
        """The feeds and operators of the worker, once the agent is on the roster."""
        self.programs: dict[bytes, Program] = {}
        """The job's code by its digest: that of the versions in force, and of one that is being prepared."""
        self.map_events: Send | None = None
        """Sends events to the job's code, to be mapped."""
        self.folds = StateFolds()
        self.paos = PaoHandles()
        self.pending: tuple[Enrolled, Peer] | None = None
        """The master's answer while the code it needs is being loaded."""
        self.committed = self._freed = FIRST_PANE
        self._published_before: int | None = None  # in this epoch's beginning
        self.reads_rows = False
        """Whether a version of the job, in force or prepared, needs rows of other jobs' results, or of a table."""
        self._is_live = False
        self._early, self._ahead = EarlySnapshots(), EarlySnapshots()
        self._policy: StragglerPolicy | None = None
        self._leaps = LeapTimer()
        self._leaped_upto = FIRST_PANE
        """The last pane over which this agent's worker was leaped."""
        self._numbers = 0
        """Bitmap of the numbers under which this worker has contributed, as this master knows them."""
        self._told_late: list[tuple[int, int]] = []  # late events told of while leaped over, by the pane they went with
        self._is_prepared = False
        """Whether the proposed version has been reported to the master as prepared."""

    def _on(self, event: LocalJobEvent) -> None:
        self.state = next_state(self.state, event)

    @property
    def is_installed(self) -> bool:
        return self.state in INSTALLED_STATES

    @property
    def is_on_roster(self) -> bool:
        """Whether this agent has a number in this epoch, and a pipeline."""
        return self.state in (LocalJobState.WORKING, LocalJobState.LEAVING)

    @property
    def is_needed(self) -> bool:
        """Whether this agent has to be in the job's trees."""
        return self.works or self.forwards or self.root is not None

    @property
    def reads_app(self) -> bool:
        """Whether this agent reads another job's results for the job, because it has the job's master."""
        return self.root is not None and self.root.reads_app

    @property
    def program(self) -> Program | None:
        """The code of the newest version in force."""
        code = self.versions.newest.function.code if self.versions is not None else None
        return self.programs.get(code) if code is not None else None

    def close(self) -> None:
        """Ends this agent's work on the job, or on an earlier job of the same name."""
        self._on(LocalJobEvent.WORK_ENDED)
        self.folds.drop(self)
        if self.pipeline is not None:
            self.pipeline.close()
            self.pipeline = None

    def end_work(self) -> None:
        """Ends this agent's part as a worker, which has left the roster; if it works again, it comes as a new one."""
        self.withdraws = self.works = False
        self.number = self.number_before = None
        self.close()

    # Epochs.

    def begin_epoch(self, epoch: JobEpoch, master: Peer, trees: int = 1, moved: KeyMoves = NOT_MOVED) -> None:
        """Follows another master. A new job of the same name begins from nothing."""
        if self.epoch is not None and not epoch.is_same_job(self.epoch):
            self.close()
            self.versions = self.number = self.number_before = None
            self.committed = self._numbered_from = FIRST_PANE
            self._numbers, self._told_late = 0, []
        self.has_departed, self.has_left, self.moved = False, False, moved
        self._on(LocalJobEvent.EPOCH_BEGUN)
        self.folds.drop()
        self.epoch, self.master_peer, self.pending = epoch, master, None
        self.number, self.number_before = None, self.number_before if self.number is None else self.number
        self.nodes.begin_epoch(trees)
        self._leaps, self._leaped_upto = LeapTimer(), FIRST_PANE
        self._freed, self._published_before = FIRST_PANE, None
        self._is_prepared, self._doubted = False, None  # the next master may know of the version that is being prepared

    @property
    def version(self) -> int:
        """The newest version in force here."""
        return self.versions.newest.version.number if self.versions is not None else 0

    def owns(self, run: Run) -> bool:
        """Whether the root of a run's tree makes windows of it, and sends the master no panes."""
        versions = self.versions if run.tree and self.moved.owners else None
        return versions is not None and versions.at(run.upto).function.is_consolidated

    @property
    def placement(self) -> TreePlacement:
        """The places of keys on trees, as far as they are known here."""
        return TreePlacement.of(len(self.nodes), self.moved)

    @property
    def groups(self) -> tuple[Id, ...]:
        """The groups of its trees, in their order."""
        return groups_of(self.app_id, len(self.nodes), self.moved.added)

    def place(self, moved: KeyMoves) -> None:
        """Takes the moves of key groups, unless later ones are known."""
        self.moved = max(self.moved, moved, key=lambda one: one.number)
        if self.pipeline is not None:
            self.pipeline.place(self.moved.number)

    def await_code(self, message: Enrolled, sender: Peer) -> None:
        """Keeps the master's answer until its code is loaded."""
        self._on(LocalJobEvent.CODE_MISSING)
        self.pending = (message, sender)

    def install(self, message: Enrolled) -> None:
        """Takes the function and starts to combine at the master's frontier. Raises `query.PlanError`."""
        versions = self.versions or Versions(message.versions, message.job, self._functions)
        if versions.trees != self.placement.ranges:
            raise query.PlanError("the job has not as many trees as were announced")
        self.versions = versions
        self._is_live = not message.job.bounded
        self.place(message.moved)
        self.nodes.install(versions.combine, message.frontier, self._messages, at_master=self.root is not None)
        self._on(LocalJobEvent.INSTALLED)
        self._change_to(message.versions)

    def start_working(self, message: Enrolled, feeds: Iterable[Feed], wall_ms: int) -> Ready:
        """Takes a number and contributes; runs sealed in an earlier epoch are handed in again."""
        assert self.versions is not None
        assert message.number is not None
        # A master from the other side of a cut may have given this worker's number to another one.
        self._numbers = 1 << message.number | (self._numbers if message.number == self.number_before else 0)
        self.number = message.number
        if self.pipeline is None:
            send = self.map_events if self.program is not None and self.program.maps else None
            self.pipeline = new_pipeline(
                self.versions, message, feeds, wall_ms, self._ingest, self.on_sealed, send, self.paos
            )
            self._take_up_again(message)
            self.joined_at = message.begins if message.is_new else None
        self._tell_again()
        self.pipeline.renumber(message.number)
        self.place(self.moved)
        self.nodes.begin_worker()
        published = message.begins - 1 if message.begins > FIRST_PANE else FIRST_PANE
        for run in self.pipeline.after(message.frontier, published):
            self._add(run)
        self._on(LocalJobEvent.WORK_BEGUN)
        return self.ready_message()

    def ready_message(self, instead_of: int | None = None) -> Ready:
        """The master's information on this worker."""
        assert self.pipeline is not None
        assert self.epoch is not None
        assert self.number is not None
        first_pane = max(self.pipeline.first_pane, self._numbered_from)
        return Ready(self.app_id, self.epoch, self.number, self.version, first_pane, instead_of)

    def note_members(self, numbers: int) -> None:
        """Notes the numbers on the roster, as the master announces them."""
        works_on = self.state is LocalJobState.WORKING and self.number is not None
        self.has_departed = works_on and not numbers >> (self.number or 0) & 1

    def renumber(self, number: int) -> Ready:
        """Takes another number for all panes that are not sealed yet."""
        assert self.pipeline is not None
        self.number, self.has_departed = number, False
        self._numbers |= 1 << number
        self.pipeline.renumber(number)
        self._numbered_from = self.pipeline.frontier + 1
        return self.ready_message()

    # Streams.

    @property
    def streams(self) -> set[str]:
        """The agent's streams that the worker reads now."""
        feeds = () if self.pipeline is None else self.pipeline.feeds.values()
        return {feed.stream for feed in feeds if feed.is_read}

    def follow_streams(self, streams: Mapping[str, StreamOptions], wall_ms: int) -> bool:
        """Reads the agent's present streams and no others; whether feeds are waited for now that were not."""
        if self.pipeline is None or self.versions is None or not self._is_live or self.pipeline.last_pane is not None:
            return False
        reads = self.streams
        if not reads:  # its events are those of another job
            return False
        if gone := reads - streams.keys():
            self.pipeline.stop_reading(gone, wall_ms)
        if not (new := streams.keys() - reads) or not self.pipeline.is_growable:
            return False
        columns = partial(columns_read, self.versions, self.program.about if self.program is not None else None)
        # Published panes are final, so a stream that comes later begins at its end.
        options, shared = dict.fromkeys(sorted(new), StreamOptions("end")), self._ingest.demand.all()
        self.pipeline.read_also(feeds_of_job(self.app_id, columns, options, shared, bounded=False), wall_ms)
        return True

    # Versions.

    def prepare(self, message: PrepareVersion) -> None:
        """Prepares for a version that may come; a repeated request means that the answer was lost. Raises
        `query.PlanError` if it cannot be run here."""
        assert self.versions is not None
        self._is_prepared = False
        if message.version == self.version or self.versions.proposes(message.version, message.plan):
            return
        function = self.versions.propose(message.version, message.plan, message.bundle)
        self.reads_rows |= function.plan.reads_rows
        if self.pipeline is not None:
            self.pipeline.prepare(function)

    @property
    def _proposed(self) -> int | None:
        """The version that is being prepared, if there is one."""
        return self.versions.proposed if self.versions is not None else None

    def prepared(self) -> VersionPrepared | None:
        """The message that reports the prepared version to the master, once."""
        if self._proposed is None or self._is_prepared or self.epoch is None:
            return None
        if self.pipeline is None or self.number is None or self.pipeline.prepared_after is None:
            return None
        assert self.versions is not None
        code = self.versions.proposed_code
        if code is not None and not (code in self.programs and self.programs[code].is_ready):
            return None
        self._is_prepared = True
        return VersionPrepared(self.app_id, self.epoch, self.number, self._proposed, self.pipeline.prepared_after)

    def withdraw(self, version: int) -> None:
        """Drops a version that is being prepared."""
        if self._proposed == version:
            self._withdraw()

    def withdraw_unless(self, *versions: int) -> None:
        """Drops any version but these, which the master prepares or has begun: the message to withdraw it was lost.
        Only the second announcement without it tells: the first may have overtaken the request to prepare it."""
        proposed = self._proposed if self._proposed not in (*versions, self.version) else None
        if proposed is not None and proposed == self._doubted:
            self._withdraw()
        self._doubted = proposed

    def _withdraw(self) -> None:
        self._is_prepared = False
        if self.versions is not None:
            self.versions.withdraw()
        if self.pipeline is not None:
            self.pipeline.withdraw()

    def begin(self, versions: Sequence[Version]) -> bool:
        """Puts the master's versions in force; returns whether any is new here. Raises `query.PlanError`."""
        if not self.is_installed or versions[-1].number <= self.version:
            return False
        self._change_to(versions)
        return True

    @property
    def is_behind(self) -> bool:
        """Whether a child has sent a snapshot of a version that is not known here."""
        return any(early.epoch == self.epoch and early.version > self.version for early in self._early)

    def _change_to(self, versions: Sequence[Version]) -> None:
        """Puts versions in force, and takes the snapshots that waited for them."""
        assert self.versions is not None
        self.versions.change_to(versions)
        self._policy = None
        self.reads_rows = any(one.function.plan.reads_rows for one in self.versions)
        self.nodes.end_versions_at(self.versions.ends())
        if self.pipeline is not None:
            self.pipeline.change_to(self.versions)
        if self._proposed is not None and self._proposed <= self.version:
            self._withdraw()
        for child, snapshot in self._early.take():
            self.take_snapshot(child, snapshot)

    # The worker.

    def opened(self, key: FeedKey, wall_ms: int) -> Ready | None:
        """Notes that a feed is open. If this is late, the first pane is a later one, which the master has to know."""
        assert self.pipeline is not None
        before = self.pipeline.first_pane
        if not self.pipeline.opened(key, wall_ms) or not self.is_installed:
            return None
        return self.ready_message(instead_of=before)

    def on_sealed(self, run: Run) -> None:
        """Takes a run that was sealed here and may leave; before it works, the pipeline's logs keep it."""
        pane_ms = self.versions.at(run.upto).function.pane_ms if self._is_live and self.versions is not None else None
        self._ingest.meter.count_run(run, pane_ms, self._ingest.clock.steady_ms)
        if self.state is LocalJobState.WORKING:
            self._add(run)
        self._on_work(self)

    def _add(self, run: Run) -> None:
        """Contributes a run after those before it, once the job's program has folded what it can."""
        assert self.versions is not None
        self.folds.fold_run(self, self.versions, run, self._contribute)

    def _contribute(self, run: Run) -> None:
        if run.after < self._leaped_upto:  # published without it: the master will say so
            run = run.within(self._leaped_upto, max(run.upto, self._leaped_upto))
        if run.upto <= run.after:
            return
        pieces = self._in_trees(run)
        for piece in self.nodes.add(pieces):
            self._take_detached(piece)
        if self.on_leaving is not None:
            self.on_leaving(self, pieces if self.placement.once is self.placement else self._in_trees(run, once=True))

    @property
    def live_pane_ms(self) -> int | None:
        """Milliseconds that a pane of a live job lasts; None where panes have no end."""
        return self.versions.newest.function.pane_ms if self._is_live and self.versions is not None else None

    @property
    def is_copied(self) -> bool:
        """Whether other agents are to hold copies of what the worker seals: whoever succeeds it cannot read it again,
        and windows wait for it if it dies."""
        is_timed = self.versions is not None and not self.versions.newest.function.self_paced
        return is_timed and self._is_live and not self.reads_app

    def snapshots_of(self, piece: Run) -> Iterator[Snapshot]:
        """The snapshots that carry a piece of a sealed run."""
        return self._messages(piece)

    def _in_trees(self, run: Run, *, once: bool = False) -> list[Run]:
        """A run as it goes up the trees; `once`: without what goes up two of them while groups move."""
        assert self.versions is not None
        assert self.number is not None
        function, mine = self.versions.at(run.upto).function, run.by(self.number)
        mine = mine if self._is_live else at_edges(function, mine)
        return self.placement.as_cut(run, once=once).split(function, mine, self.versions.functions())

    def hand_in(self) -> bool:
        """Sends every run that is not committed, detached, once all are sealed; returns whether it did so now. An agent
        that leaves after its children may wait for panes of theirs that they will bring to another parent."""
        if self.state is not LocalJobState.WORKING or self.pipeline is None or not self.pipeline.has_finished:
            return False
        self._on(LocalJobEvent.HANDED_IN)
        self.folds.drop(self)
        self.nodes.end_worker()
        for run in self.pipeline.after(self.committed):
            for piece in self._in_trees(run, once=True) if run.contributors else ():
                self._take_detached(piece)
        return True

    @property
    def has_handed_in(self) -> bool:
        """Whether no run is lost if this agent ends now, and nobody expects further ones."""
        is_told = self.state is LocalJobState.LEAVING and self.last_pane_to_tell is None
        return self.pipeline is None or (is_told and self.nodes.is_acknowledged)

    @property
    def last_pane_to_tell(self) -> int | None:
        """The last pane of a worker that leaves, as long as its master has not confirmed that it knows."""
        leaves = self.state is LocalJobState.LEAVING and not self.has_left
        return self.pipeline.last_pane if leaves and self.pipeline is not None else None

    # Snapshots.

    def take_snapshot(self, sender: int, message: Snapshot, *, at_once: bool = False) -> bool:
        """Takes a run of a child or of a tree's root; False if it is of an older epoch, or there is no room to hold it.

        A bounded job's children send all they have within a moment: what follows runs that wait for other sources is
        ahead, and stays encoded, unless it is needed `at_once`. An unsound run still advances its sender, without
        content: its agents are missing then, and nobody waits for them for ever."""
        if self.epoch is None or message.epoch > self.epoch:
            return self._hold(sender, message)
        if message.epoch != self.epoch or not self._is_of_tree(message):
            self.refused += 1
            return False
        if not self.is_installed or self.versions is None or message.version > self.version:
            return self._hold(sender, message)
        source: Hashable = RootOf(message.tree) if message.of_root else sender
        combiner = self.nodes.combiner(0 if message.of_root else message.tree)
        if combiner.is_full(source):
            self.refused += 1
            return False
        if message.detached:
            if self.root is None and not self.nodes.has_room(message.tree):
                return False
            combiner.move_on(source, message.upto)
            self._pass_on_detached(message)
            return True
        can_wait = not (self._is_live or at_once or message.of_root)
        if can_wait and combiner.can_wait(source, message.after, message.upto):
            is_held = self._ahead.hold(sender, message)
            self.refused += not is_held
            return is_held
        sound = self.sound_run(message)
        self.refused += sound is None
        run = sound or without_content(self.versions, message.after, message.upto, message.tree)
        if message.stage == "report" and run.contributors:
            run = replace(run, held=frozenset({((message.tree, sender), run.contributors)}))
        if message.of_root and run.after < combiner.progress(source):
            # Another root has delivered those panes; this one may know of other agents.
            self._take_detached(run.within(run.after, combiner.progress(source)))
            if run.upto <= combiner.progress(source):
                return True
        refused = combiner.refused
        late = combiner.add(source, run)
        is_new = combiner.refused == refused
        self.refused += not is_new
        if is_new and sound is not None:
            self._show(sender, sound)
        if late is not None:
            self._take_detached(late)
        return True

    def take_ahead(self, *, at_once: bool = False) -> bool:
        """Takes the runs that were ahead and are not any more, or all `at_once`; returns whether there were any."""
        before = len(self._ahead)
        for child, snapshot in self._ahead.take() if before else ():
            self.take_snapshot(child, snapshot, at_once=at_once)
        return len(self._ahead) < before

    def _show(self, child: int, run: Run) -> None:
        """Holds a child's state for the job's code, which may read it."""
        assert self.versions is not None
        listens = self.program is not None and self.program.listens
        if listens and run.contributors and (run.state.height or not run.tree):
            self.paos.receive(
                child, PaoHandle(self.versions.at(run.upto).function, run.state, total(run.counted.values()))
            )

    def _is_of_tree(self, message: Snapshot) -> bool:
        """Whether the job has the snapshot's tree and, if a root has sent it, this agent has the master."""
        to_master = self.root is not None and message.tree > 0
        is_possible = to_master if message.of_root else message.stage == "panes"
        return message.tree < len(self.nodes) and is_possible

    def _hold(self, sender: int, message: Snapshot) -> bool:
        is_held = self._early.hold(sender, message)
        self.refused += not is_held
        return is_held

    def take_detached(self, message: Snapshot) -> bool:
        """Takes, at the master, a detached run that comes straight from the agent that made it."""
        is_due = message.epoch == self.epoch and message.detached and message.tree < len(self.nodes)
        if self.root is None or not self.is_installed or not is_due:
            self.refused += 1
            return False
        self._pass_on_detached(message)
        return True

    def take_copy(self, message: Snapshot) -> int | None:
        """Takes, at the master, a copy of a run of any term; returns its last pane if it is of use."""
        if self.root is None or not self.is_installed or message.tree >= len(self.nodes):
            self.refused += 1
            return None
        combiner = self.nodes.combiner()
        run = self.sound_run(message) if message.upto > combiner.frontier else None
        self.refused += run is None and message.upto > combiner.frontier
        is_old = run is not None and run.placed != self.moved.number
        return run.upto if run and combiner.add_detached(replace(run, is_old_cut=is_old)) else None

    def _pass_on_detached(self, message: Snapshot) -> None:
        """Passes a detached run on unchanged; only the master decodes it."""
        if self.root is None:
            if message.upto > self._freed:
                self.nodes.keep(message)
            return
        run = self.sound_run(message)
        self.refused += run is None
        if run is not None:
            self._take_detached(run)

    def _take_detached(self, run: Run) -> None:
        if self.root is not None:
            self.nodes.combiner().add_detached(run)
            return
        for message in self._messages(run, detached=True):
            self.nodes.keep(message)

    def sound_run(self, message: Snapshot) -> Run | None:
        """The run in a peer's message; None if an honest one could not have made it."""
        assert self.versions is not None
        known = self.root.known() if self.root is not None else None
        about = self.versions, self.placement, known, self._limits, self.nodes.clock.now
        return self.nodes.decoded(message, partial(run_of, message, *about))

    def _messages(self, run: Run, *, detached: bool = False) -> Iterator[Snapshot]:
        """The snapshots that carry a run: several where it has too many panes, or all of them are too large together.
        Of a single pane that is too large only the reason goes."""
        assert self.epoch is not None
        assert self.versions is not None
        for piece in run.pieces(PANES_COUNTED_MAX):
            message = snapshot_of(
                piece, self.versions, self.app_id, self.epoch, detached=detached, encoder=self.encoder
            )
            if (reason := reason_too_large(message, self._limits)) is None:
                yield message
            elif (piece.patches or piece.before) and piece.halves() is None:
                less = piece.without_patches() if piece.patches else piece.with_before()
                yield from self._messages(less, detached=detached)
            elif (halves := piece.halves()) is not None:
                for half in halves:
                    yield from self._messages(half, detached=detached)
            else:
                self.oversized += 1
                nothing = piece.without_content(self.versions.combine([], piece.upto), reason)
                yield snapshot_of(nothing, self.versions, self.app_id, self.epoch, detached=detached)

    # Time.

    def skip_stragglers(self, now: float) -> bool:
        """Goes on without sources that stand still, unless these read bounded input; whether that changes anything."""
        if not self.is_installed or self.versions is None or not self._is_live:
            return False
        is_cut_by_code = self.versions.newest.function.self_paced
        skipped = is_cut_by_code and self.nodes.skip_stragglers(self._straggler_policy(self.versions), now)
        silent_upto = self._leaps.gives_up(now)
        return skipped if silent_upto is None else self.nodes.go_on(silent_upto) or skipped

    def _straggler_policy(self, versions: Versions) -> StragglerPolicy:
        """The policy for the sources of the versions in force, made once for them."""
        if self._policy is None:
            self._policy = StragglerPolicy.of_sources(versions)
        return self._policy

    @property
    def is_quiet(self) -> bool:
        """Whether a look at it changes nothing until something happens to it: nobody is waited for, parents have all
        that was sent, and its panes are not cut by code at its own pace."""
        cut_by_code = self.versions is not None and self.versions.newest.function.self_paced
        leaped_upto = self._leaps.upto if self.epoch is not None and not len(self._ahead) else None
        return leaped_upto is not None and not cut_by_code and self.nodes.is_quiet(leaped_upto)

    def lagging(self, now: float, *, is_slow: bool = False) -> Lagging | None:
        """The report of stragglers that the master is to have now, if there are any. `is_slow`: the agent has looked
        too rarely."""
        if not self._leaps.look(now, is_slow=is_slow) or not self._leaps_over:
            return None
        assert self.versions is not None
        assert self.epoch is not None
        lag = self.nodes.lag(self._straggler_policy(self.versions))
        return Lagging(self.app_id, self.epoch, *lag) if lag is not None and self._leaps.reports(lag[0], now) else None

    def leap(self, message: Leap, now: float) -> None:
        """Goes on up to a pane. This agent passes over what it has not sealed; it waits a moment for its children, who
        do the same."""
        if message.upto <= self.committed or not self._leaps_over:
            return
        self._leaps.leap(message.upto, now)
        if self.state is LocalJobState.WORKING and self.nodes.sealed_upto < message.upto:
            self._pass_over(self.nodes.sealed_upto, message.upto)
        self._on_work(self)

    @property
    def _leaps_over(self) -> bool:
        """Whether stragglers of this job may be leaped over here: its panes follow from the time of events."""
        is_timed = self.versions is not None and not self.versions.newest.function.self_paced
        return is_timed and self.is_installed and self._is_live

    def _pass_over(self, after: int, upto: int) -> None:
        assert self.versions is not None
        assert self.number is not None
        pane_ms = self.versions.at(upto).function.pane_ms or 1
        last, counted = upto // pane_ms * pane_ms, dict[int, Counts]()
        if self.pipeline is not None and last > after and (late := self.pipeline.take_late()):
            counted = {last: Counts(late=late)}
            self._told_late.append((upto, late))
        empty = (without_content(self.versions, after, upto, node.tree) for node in self.nodes)
        runs = [replace(run, leaped=1 << self.number, counted={} if run.tree else counted) for run in empty]
        self.nodes.add(runs)
        self._leaped_upto = upto

    def _take_up_again(self, message: Enrolled) -> None:
        """Has a new pipeline count as late what an earlier process had sealed of panes that are out without it."""
        assert self.pipeline is not None
        assert self.versions is not None
        published = message.begins - 1
        if message.contributed < published and message.begins > FIRST_PANE:
            without = ((message.contributed, published),)
            retention_pane = self.versions.retention_pane(published)
            self.pipeline.owe(self.pipeline.commit(Publication(published, without, without), retention_pane))

    def _tell_again(self) -> None:
        """Counts the late events anew that the master before may not have heard of."""
        told, self._told_late = self._told_late, []
        if self.pipeline is not None:
            self.pipeline.owe(Counts(late=sum(late for _, late in told)))

    def commit(self, frontier: int, incomplete: Iterable[WireSpan] = ()) -> None:
        """Frees what the master has published; `incomplete`: the spans that it has published without somebody."""
        self.committed = max(self.committed, frontier)
        if self._published_before is None:
            self._published_before = self.committed
        if self.committed > self._published_before:
            # Before that, panes that were published by the master before are on their way to this one again.
            self._freed = self.committed
            self.nodes.commit(self._freed)
        self._told_late = [(upto, late) for upto, late in self._told_late if upto > self.committed]
        # Who has no number under this master yet cannot tell whether it is in a span.
        if self.pipeline is not None and self.versions is not None and self.number is not None:
            published = Publication.to(self._numbers, self.committed, from_wire(incomplete))
            self.pipeline.owe(self.pipeline.commit(published, self.versions.retention_pane(self.committed)))
        if self.versions is not None and self.versions.forget(self.committed):
            self._policy = None
