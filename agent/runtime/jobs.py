"""An agent's part in one job: worker and combiner, as far as it plays them, through all of the job's epochs.

A part is *installed* once the master of the epoch has told it the function and, for a worker, its number. With each new
epoch it enrols anew: the combiner starts over at the new master's frontier, and the worker hands in again what it has
sealed beyond that. Nothing that others combined under the old master is used, so nothing can count twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.runtime.combiner import Combiner, Span
from agent.runtime.epochs import Epoch
from agent.runtime.feeds_wanted import Feed, FeedKey, WantedFeeds
from agent.runtime.held_paos import Held, HeldPaos
from agent.runtime.held_snapshots import HeldSnapshots
from agent.runtime.intakes import AnyIntake, new_intake
from agent.runtime.mapped_intake import Send
from agent.runtime.master import Master
from agent.runtime.messages import Enrolled, Ready, Received, Snapshot
from agent.runtime.operators import Operators
from agent.runtime.panes import END, FIRST_PANE, Run
from agent.runtime.programs import Program
from agent.runtime.snapshots import run_of, snapshot_of, without_content
from agent.runtime.uplink import Pace, Uplink
from agent.runtime.version_messages import Prepared, Propose, Version
from agent.runtime.versions import Versions
from overlay import Id, Peer

LOOK_S = 1.0


class JobPart:
    """State of one job on one agent; knows no overlay and sends nothing itself."""

    def __init__(self, app_id: Id, node_id: int, operators: Operators, wanted: WantedFeeds, pace: Pace) -> None:
        self.app_id = app_id
        self._pace = pace
        self._operators = operators
        self._wanted = wanted
        self.works = False
        self.forwards = False
        self.master: Master | None = None
        """The job's master, if it is here."""
        self.master_peer: Peer | None = None
        self.epoch: Epoch | None = None
        self.versions: Versions | None = None
        self.number: int | None = None
        self.number_before: int | None = None
        """The worker's number in this epoch, and in the one before."""
        self.refused = 0
        self.intake: AnyIntake | None = None
        """The worker and its feeds, once the agent is on the roster."""
        self.programs: dict[bytes, Program] = {}
        """The job's code, by its digest: of the versions in force, and of one that is being prepared."""
        self.map_events: Send | None = None
        """Has that code map events."""
        self.paos = HeldPaos()
        self.parked: tuple[Enrolled, Peer] | None = None
        """What the master has said, while the code it needs is being loaded."""
        self.committed = FIRST_PANE
        self._handed_in: Epoch | None = None
        self._is_live = False
        self._looks_at = 0.0
        self._node_id = node_id
        self._children: dict[int, None] = {}
        self._combiner: Combiner | None = None
        self._held = HeldSnapshots()
        self._uplink = Uplink(pace)
        self._is_prepared = False

    @property
    def is_needed(self) -> bool:
        """Whether this agent has to be in the job's tree."""
        return self.works or self.forwards or self.master is not None

    @property
    def program(self) -> Program | None:
        """The code of the newest version in force."""
        code = self.versions.newest.function.code if self.versions is not None else None
        return self.programs.get(code) if code is not None else None

    def close(self) -> None:
        """This agent does not work on the job any more, or another job begins in its place."""
        if self.intake is not None:
            self.intake.close()
            self.intake = None

    # Epochs.

    def begin_epoch(self, epoch: Epoch, master: Peer) -> None:
        """Turns to another master. Another job of the same name begins from nothing."""
        if self.epoch is not None and not epoch.is_same_job(self.epoch):
            self.close()
            self.versions = self.number = self.number_before = None
            self.committed = FIRST_PANE
        self.epoch, self.master_peer, self.parked = epoch, master, None
        self.number, self.number_before = None, self.number_before if self.number is None else self.number
        self._combiner, self._uplink = None, Uplink(self._pace)
        self._withdraw()

    @property
    def is_installed(self) -> bool:
        return self._combiner is not None

    @property
    def version(self) -> int:
        """The newest version in force here."""
        return self.versions.newest.version.number if self.versions is not None else 0

    def install(self, message: Enrolled) -> None:
        """Takes the function and starts to combine at the master's frontier. Raises `query.PlanError`."""
        if self.versions is None:
            self.versions = Versions(message.versions, message.job.since_ms, message.job.until_ms)
        self._is_live = not message.job.bounded
        combiner = self._combiner = Combiner(self.versions.combine, frontier=message.frontier)
        for child in self._children:
            combiner.add_source(child)
        self._change_to(message.versions)

    def start_working(self, message: Enrolled, feeds: Iterable[Feed], wall_ms: int) -> Ready:
        """Takes a number and contributes; what was sealed in an earlier epoch is handed in again."""
        assert self.versions is not None
        assert self._combiner is not None
        assert message.number is not None
        self.number = message.number
        if self.intake is None:
            send = self.map_events if self.program is not None and self.program.maps else None
            shared = (self._operators, self._wanted)
            self.intake = new_intake(self.versions, message, feeds, wall_ms, *shared, send, self.paos)
        self._combiner.add_source(self._node_id)
        for run in self.intake.after(message.frontier, self.number):
            self._take_loose(self._combiner.add(self._node_id, run))
        return self.ready_message()

    def ready_message(self, instead_of: int | None = None) -> Ready:
        """What the master has to know of this worker."""
        assert self.intake is not None
        assert self.epoch is not None
        assert self.number is not None
        return Ready(self.app_id, self.epoch, self.number, self.version, self.intake.first_pane, instead_of)

    # Versions.

    def prepare(self, message: Propose) -> None:
        """Makes ready for a version that may come. Raises `query.PlanError` where it cannot be run here.

        Of what is said again, the answer got lost.
        """
        assert self.versions is not None
        self._is_prepared = False
        if message.version in (self._proposed, self.version):
            return
        function = self.versions.propose(message.version, message.plan, message.bundle)
        if self.intake is not None:
            self.intake.prepare(function)

    @property
    def _proposed(self) -> int | None:
        """The version that is prepared, if there is one."""
        return self.versions.proposed if self.versions is not None else None

    def prepared(self) -> Prepared | None:
        """What the master is to be told of the version that is prepared, once."""
        if self._proposed is None or self._is_prepared or self.epoch is None:
            return None
        if self.intake is None or self.number is None or self.intake.prepared_after is None:
            return None
        assert self.versions is not None
        code = self.versions.proposed_code
        if code is not None and not (code in self.programs and self.programs[code].is_ready):
            return None
        self._is_prepared = True
        return Prepared(self.app_id, self.epoch, self.number, self._proposed, self.intake.prepared_after)

    def withdraw(self, version: int) -> None:
        """A version that was to come will not."""
        if self._proposed == version:
            self._withdraw()

    def withdraw_unless(self, version: int) -> None:
        """The master prepares this one, or none: the word that another one was withdrawn got lost."""
        if self._proposed is not None and self._proposed not in (version, self.version):
            self._withdraw()

    def _withdraw(self) -> None:
        self._is_prepared = False
        if self.versions is not None:
            self.versions.withdraw()
        if self.intake is not None:
            self.intake.withdraw()

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
        assert self._combiner is not None
        self.versions.change_to(versions)
        if self.intake is not None:
            self.intake.change_to(self.versions)
        if self._proposed is not None and self._proposed <= self.version:
            self._withdraw()
        self._combiner.end_versions_at(self.versions.ends())
        self.take_fresh()
        for child, snapshot in self._held.take():
            self.child_snapshot(child, snapshot)

    # The worker.

    def opened(self, key: FeedKey, wall_ms: int) -> Ready | None:
        """A feed gives a sign of life. If that is late, the first pane is a later one: then the master has to know."""
        assert self.intake is not None
        before = self.intake.first_pane
        if not self.intake.opened(key, wall_ms) or not self.is_installed:
            return None
        self.take_fresh()
        return self.ready_message(instead_of=before)

    def take_fresh(self) -> None:
        """Moves what was sealed here into the combiner."""
        if self.intake is not None and self.number is not None and self._combiner is not None:
            for run in self.intake.fresh(self.number):
                self._take_loose(self._combiner.add(self._node_id, run))

    def hand_in(self) -> bool:
        """Sends up all that was sealed and is not out, as it is; whether everything is sealed and this is a new epoch.

        Who comes after its children may not have reached those panes yet: they will bring theirs to another parent.
        """
        intake, number = self.intake, self.number
        if intake is None or number is None or self._combiner is None or self._handed_in == self.epoch:
            return False
        if not intake.has_finished:
            return False
        self._handed_in = self.epoch
        self._combiner.remove_source(self._node_id)
        self._uplink.loosen()
        for run in intake.after(self.committed, number):
            if run.contributors:
                self._uplink.keep(self._message(run, again=True))
        return True

    @property
    def has_handed_in(self) -> bool:
        """Whether nothing is lost if this agent ends now."""
        if self.intake is None:
            return True
        return self._handed_in is not None and self._handed_in == self.epoch and self._uplink.is_confirmed

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
        if self.epoch is None or message.epoch > self.epoch:
            return self._hold(child, message)
        if message.epoch != self.epoch:
            self.refused += 1
            return False
        if self._combiner is None or self.versions is None or message.version > self.version:
            return self._hold(child, message)
        if message.again:
            self._combiner.move_on(child, message.upto)
            self._take_again(message)
            return True
        run = self._sound_run(message)
        self.refused += run is None
        refused = self._combiner.refused
        late = self._combiner.add(child, run or without_content(self.versions, message.after, message.upto))
        is_new = self._combiner.refused == refused
        self.refused += not is_new
        if is_new and run is not None and run.contributors and self.program is not None and self.program.listens:
            self.paos.receive(child, Held(self.versions.at(run.upto).function, run.state, run.counters))
        self._take_loose(late)
        return True

    def _hold(self, child: int, message: Snapshot) -> bool:
        is_held = self._held.hold(child, message)
        self.refused += not is_held
        return is_held

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
            if message.upto > self.committed:
                self._uplink.keep(message)
            return
        run = self._sound_run(message)
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

    def _sound_run(self, message: Snapshot) -> Run | None:
        assert self.versions is not None
        return run_of(message, self.versions, self.master.roster.known() if self.master is not None else None)

    @property
    def waiting_runs(self) -> int:
        """Runs that wait here for those of other sources."""
        return self._combiner.waiting_runs if self._combiner is not None else 0

    def excuse_stragglers(self, now: float) -> bool:
        """Goes on without sources that stand still; of bounded input each takes its time to read. Whether that is news.

        Looks once a second.
        """
        if self._combiner is None or self.versions is None or not self._is_live or now < self._looks_at:
            return False
        self._looks_at = now + LOOK_S
        longest_ms = max(one.function.pane_ms or END for one in self.versions)
        return self._combiner.excuse_stragglers(2 * longest_ms, self.versions.newest.function.patience_s, now)

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

    @property
    def has_unsent(self) -> bool:
        """Whether a parent may have to get anything."""
        return not self._uplink.is_confirmed

    def confirmed(self, message: Received, now: float) -> None:
        """The parent has a snapshot."""
        self._uplink.confirmed(message.after, message.upto, message.contributors, now)

    def _message(self, run: Run, *, again: bool = False) -> Snapshot:
        assert self.epoch is not None
        assert self.versions is not None
        return snapshot_of(run, self.versions, self.app_id, self.epoch, again=again)

    def commit(self, frontier: int) -> None:
        """Frees what the master has published."""
        if frontier > self.committed:
            self.committed = frontier
        self._uplink.commit(self.committed)
        if self.intake is not None:
            self.intake.commit(self.committed)
        if self.versions is not None:
            self.versions.forget(self.committed)
