"""An agent's part in one job: worker and combiner, as far as it plays them, through all of the job's epochs.

A part is *installed* once the master of the epoch has told it the function and, for a worker, its number. With each new
epoch it enrols anew: the combiner starts over at the new master's frontier, and the worker hands in again what it has
sealed beyond that. Nothing that others combined under the old master is used, so nothing can count twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol

import query
from agent.runtime.function.versions import Versions
from agent.runtime.ingest.feed import Feed, FeedKey
from agent.runtime.ingest.mapped import Send
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pao_handles import PaoHandle, PaoHandles
from agent.runtime.ingest.pipelines import AnyPipeline, new_pipeline
from agent.runtime.job.program_table import Program
from agent.runtime.messages.jobs import Enrolled, Ready, Snapshot
from agent.runtime.messages.versions import PrepareVersion, Version, VersionPrepared
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import END, FIRST_PANE, Run, total
from agent.runtime.reduce.resend import AckLatency
from agent.runtime.reduce.snapshot import EarlySnapshots, in_trees, run_of, snapshot_of, without_content
from agent.runtime.reduce.tree_node import RootOf, TreeNodes
from overlay import Id, Peer

LOOK_S = 1.0


class RootSink(Protocol):
    """Takes completed runs at the root of a job's tree: the job's master, where it is on this agent."""

    @property
    def reads_app(self) -> bool:
        """Whether the job reads another job's results, which only the master's agent does."""
        ...

    def known(self) -> int:
        """Bitmap of the agents on the roster."""
        ...

    def on_complete(self, now: float) -> None:
        """Publishes the runs that every source has reached."""
        ...


class LocalJob:
    """State of one job on one agent; knows no overlay and sends nothing itself."""

    def __init__(
        self, app_id: Id, node_id: int, ingest: OperatorPool, pace: AckLatency, on_work: Callable[[LocalJob], None]
    ) -> None:
        self.app_id = app_id
        self._on_work = on_work
        self.nodes = TreeNodes(node_id, pace)
        self._ingest = ingest
        self.works = False
        self.forwards = False
        self.root: RootSink | None = None
        """The job's master, if it is here."""
        self.master_peer: Peer | None = None
        self.epoch: JobEpoch | None = None
        self.versions: Versions | None = None
        self.number: int | None = None
        self.number_before: int | None = None
        """The worker's number in this epoch, and in the one before."""
        self.refused = 0
        self.pipeline: AnyPipeline | None = None
        """The worker and its feeds, once the agent is on the roster."""
        self.programs: dict[bytes, Program] = {}
        """The job's code, by its digest: of the versions in force, and of one that is being prepared."""
        self.map_events: Send | None = None
        """Has that code map events."""
        self.paos = PaoHandles()
        self.pending: tuple[Enrolled, Peer] | None = None
        """What the master has said, while the code it needs is being loaded."""
        self.committed = FIRST_PANE
        self.reads_rows = False
        """Whether a version of it, in force or prepared, needs rows of other jobs' results, or of a table."""
        self._handed_in: JobEpoch | None = None
        self._is_live = False
        self._looks_at = 0.0
        self._held = EarlySnapshots()
        self._is_prepared = False
        self._takes_runs = False
        """Whether runs are combined as they are sealed; before, the pipeline's logs keep them."""

    @property
    def is_needed(self) -> bool:
        """Whether this agent has to be in the job's tree."""
        return self.works or self.forwards or self.root is not None

    @property
    def reads_app(self) -> bool:
        """Whether the job reads another job's results, and this agent, which has its master, is to read them."""
        return self.root is not None and self.root.reads_app

    @property
    def program(self) -> Program | None:
        """The code of the newest version in force."""
        code = self.versions.newest.function.code if self.versions is not None else None
        return self.programs.get(code) if code is not None else None

    def close(self) -> None:
        """This agent does not work on the job any more, or another job begins in its place."""
        if self.pipeline is not None:
            self.pipeline.close()
            self.pipeline = None

    # Epochs.

    def begin_epoch(self, epoch: JobEpoch, master: Peer, trees: int = 1) -> None:
        """Turns to another master. Another job of the same name begins from nothing."""
        if self.epoch is not None and not epoch.is_same_job(self.epoch):
            self.close()
            self.versions = self.number = self.number_before = None
            self.committed = FIRST_PANE
        self.epoch, self.master_peer, self.pending = epoch, master, None
        self._takes_runs = False
        self.number, self.number_before = None, self.number_before if self.number is None else self.number
        self.nodes.begin_epoch(trees)
        self._withdraw()

    @property
    def is_installed(self) -> bool:
        return self.nodes.is_installed

    @property
    def version(self) -> int:
        """The newest version in force here."""
        return self.versions.newest.version.number if self.versions is not None else 0

    def install(self, message: Enrolled) -> None:
        """Takes the function and starts to combine at the master's frontier. Raises `query.PlanError`."""
        if query.Plan.from_wire(message.job.plan).trees != len(self.nodes):
            raise query.PlanError("the job has not as many trees as were announced")
        if self.versions is None:
            self.versions = Versions(message.versions, message.job.since_ms, message.job.until_ms)
        self._is_live = not message.job.bounded
        self.nodes.install(self.versions.combine, message.frontier, at_master=self.root is not None)
        self._change_to(message.versions)

    def start_working(self, message: Enrolled, feeds: Iterable[Feed], wall_ms: int) -> Ready:
        """Takes a number and contributes; what was sealed in an earlier epoch is handed in again."""
        assert self.versions is not None
        assert message.number is not None
        self.number = message.number
        if self.pipeline is None:
            send = self.map_events if self.program is not None and self.program.maps else None
            self.pipeline = new_pipeline(
                self.versions, message, feeds, wall_ms, self._ingest, self.on_sealed, send, self.paos
            )
        self.nodes.begin_worker()
        for run in self.pipeline.after(message.frontier):
            self._add(run)
        self._takes_runs = True
        return self.ready_message()

    def ready_message(self, instead_of: int | None = None) -> Ready:
        """What the master has to know of this worker."""
        assert self.pipeline is not None
        assert self.epoch is not None
        assert self.number is not None
        return Ready(self.app_id, self.epoch, self.number, self.version, self.pipeline.first_pane, instead_of)

    # Versions.

    def prepare(self, message: PrepareVersion) -> None:
        """Makes ready for a version that may come. Raises `query.PlanError` where it cannot be run here.

        Of what is said again, the answer got lost.
        """
        assert self.versions is not None
        self._is_prepared = False
        if message.version in (self._proposed, self.version):
            return
        function = self.versions.propose(message.version, message.plan, message.bundle)
        self.reads_rows |= function.plan.reads_rows
        if self.pipeline is not None:
            self.pipeline.prepare(function)

    @property
    def _proposed(self) -> int | None:
        """The version that is prepared, if there is one."""
        return self.versions.proposed if self.versions is not None else None

    def prepared(self) -> VersionPrepared | None:
        """What the master is to be told of the version that is prepared, once."""
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
        """A version that was to come will not."""
        if self._proposed == version:
            self._withdraw()

    def withdraw_unless(self, *versions: int) -> None:
        """The master prepares or has begun these: the word that another one was withdrawn got lost."""
        if self._proposed is not None and self._proposed not in (*versions, self.version):
            self._withdraw()

    def _withdraw(self) -> None:
        self._is_prepared = False
        if self.versions is not None:
            self.versions.withdraw()
        if self.pipeline is not None:
            self.pipeline.withdraw()

    def begin(self, versions: Sequence[Version]) -> bool:
        """The master in office puts versions in force; whether that is news. Raises `query.PlanError`."""
        if not self.is_installed or versions[-1].number <= self.version:
            return False
        self._change_to(versions)
        return True

    @property
    def is_behind(self) -> bool:
        """Whether a child speaks of a version that is not known here."""
        return any(held.epoch == self.epoch and held.version > self.version for held in self._held)

    def _change_to(self, versions: Sequence[Version]) -> None:
        """These are in force, and what waited for them is taken."""
        assert self.versions is not None
        self.versions.change_to(versions)
        self.reads_rows = any(one.function.plan.reads_rows for one in self.versions)
        self.nodes.end_versions_at(self.versions.ends())
        if self.pipeline is not None:
            self.pipeline.change_to(self.versions)
        if self._proposed is not None and self._proposed <= self.version:
            self._withdraw()
        for child, snapshot in self._held.take():
            self.child_snapshot(child, snapshot)

    # The worker.

    def opened(self, key: FeedKey, wall_ms: int) -> Ready | None:
        """A feed gives a sign of life. If that is late, the first pane is a later one: then the master has to know."""
        assert self.pipeline is not None
        before = self.pipeline.first_pane
        if not self.pipeline.opened(key, wall_ms) or not self.is_installed:
            return None
        return self.ready_message(instead_of=before)

    def on_sealed(self, run: Run) -> None:
        """Takes a run that was sealed here."""
        if self._takes_runs:
            self._add(run)
        self._on_work(self)

    def _add(self, run: Run) -> None:
        assert self.number is not None
        for late in self.nodes.add(self._in_trees(run.by(self.number))):
            self._take_loose(late)

    def _in_trees(self, run: Run) -> list[Run]:
        assert self.versions is not None
        return in_trees(run, self.versions, len(self.nodes))

    def hand_in(self) -> bool:
        """Sends up all that was sealed and is not out, as it is; whether everything is sealed and this is a new epoch.

        Who comes after its children may not have reached those panes yet: they will bring theirs to another parent.
        """
        intake, number = self.pipeline, self.number
        if intake is None or number is None or not self.is_installed or self._handed_in == self.epoch:
            return False
        if not intake.has_finished:
            return False
        self._handed_in = self.epoch
        self._takes_runs = False
        self.nodes.end_worker()
        for run in intake.after(self.committed):
            for piece in self._in_trees(run.by(number)) if run.contributors else ():
                self.nodes.keep(self._message(piece, again=True))
        return True

    @property
    def has_handed_in(self) -> bool:
        """Whether nothing is lost if this agent ends now."""
        if self.pipeline is None:
            return True
        return self._handed_in is not None and self._handed_in == self.epoch and self.nodes.is_confirmed

    # The trees.

    def child_snapshot(self, child: int, message: Snapshot) -> bool:
        """Takes a run of a child or of a tree's root; whether it was of this epoch, or of one that is on its way here.

        A run that is not sound still moves its child on, only without content: its agents are missing then, and
        nobody waits for them for ever.
        """
        if self.epoch is None or message.epoch > self.epoch:
            return self._hold(child, message)
        if message.epoch != self.epoch or not self._is_of_tree(message):
            self.refused += 1
            return False
        if not self.is_installed or self.versions is None or message.version > self.version:
            return self._hold(child, message)
        source: Hashable = RootOf(message.tree) if message.of_root else child
        combiner = self.nodes.combiner(0 if message.of_root else message.tree)
        if message.again:
            combiner.move_on(source, message.upto)
            self._take_again(message)
            return True
        run = self._sound_run(message)
        self.refused += run is None
        sound, run = run, run or without_content(self.versions, message.after, message.upto, message.tree)
        if message.of_root and run.after < combiner.progress(source):
            # Another root has delivered those panes; this one may know of other agents.
            self._take_loose(run.within(run.after, combiner.progress(source)))
            if run.upto <= combiner.progress(source):
                return True
        refused = combiner.refused
        late = combiner.add(source, run)
        is_new = combiner.refused == refused
        self.refused += not is_new
        if is_new and sound is not None:
            self._hear(child, sound)
        if late is not None:
            self._take_loose(late)
        return True

    def _hear(self, child: int, run: Run) -> None:
        """The job's code may want to see what a child has sent."""
        assert self.versions is not None
        listens = self.program is not None and self.program.listens
        if listens and run.contributors and (run.state.height or not run.tree):
            self.paos.receive(
                child, PaoHandle(self.versions.at(run.upto).function, run.state, total(run.counted.values()))
            )

    def _is_of_tree(self, message: Snapshot) -> bool:
        """Whether the job has such a tree, and what its root says has come to the master."""
        to_master = self.root is not None and message.tree > 0
        return message.tree < len(self.nodes) and (to_master or not message.of_root)

    def _hold(self, child: int, message: Snapshot) -> bool:
        is_held = self._held.hold(child, message)
        self.refused += not is_held
        return is_held

    def take_again(self, message: Snapshot) -> bool:
        """At the master: a run that comes straight from where it was made."""
        is_due = message.epoch == self.epoch and message.again and message.tree < len(self.nodes)
        if self.root is None or not self.is_installed or not is_due:
            self.refused += 1
            return False
        self._take_again(message)
        return True

    def _take_again(self, message: Snapshot) -> None:
        """Only the master looks into what is sent again; everyone else passes it on as it is."""
        if self.root is None:
            if message.upto > self.committed:
                self.nodes.keep(message)
            return
        run = self._sound_run(message)
        self.refused += run is None
        if run is not None:
            self._take_loose(run)

    def _take_loose(self, run: Run) -> None:
        if self.root is None:
            self.nodes.keep(self._message(run, again=True))
        else:
            self.nodes.combiner().add_loose(run)

    def _sound_run(self, message: Snapshot) -> Run | None:
        assert self.versions is not None
        known = self.root.known() if self.root is not None else None
        return run_of(message, self.versions, len(self.nodes), known)

    def excuse_stragglers(self, now: float) -> bool:
        """Goes on without sources that stand still; of bounded input each takes its time to read. Whether that is news.

        Looks once a second.
        """
        if now < self._looks_at or not self.is_installed or self.versions is None or not self._is_live:
            return False
        self._looks_at = now + LOOK_S
        longest_ms = max(one.function.pane_ms or END for one in self.versions)
        return self.nodes.excuse_stragglers(2 * longest_ms, self.versions.newest.function.patience_s, now)

    def pass_on(self) -> None:
        """Puts completed runs on the way up, but for those that the master here publishes."""
        if self.pipeline is not None:
            self.pipeline.advance()
        for run in self.nodes.passing(0 if self.root is None else 1):
            self.nodes.keep(self._message(run))

    def _message(self, run: Run, *, again: bool = False) -> Snapshot:
        assert self.epoch is not None
        assert self.versions is not None
        return snapshot_of(run, self.versions, self.app_id, self.epoch, again=again)

    def commit(self, frontier: int) -> None:
        """Frees what the master has published."""
        if frontier > self.committed:
            self.committed = frontier
        self.nodes.commit(self.committed)
        if self.pipeline is not None and self.versions is not None:
            self.pipeline.commit(self.committed, self.versions.retention_pane(self.committed))
        if self.versions is not None:
            self.versions.forget(self.committed)
