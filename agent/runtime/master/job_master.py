"""A master in office: what it says to the fleet, to the agents nearest to it, and to those who follow its job.

Nothing is published before the agents nearest to the master hold the roster and the frontier that go with it: the next
master would else count again what is out already, or not know who is missing (DESIGN §4.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from agent.programs.calls import Published
from agent.runtime.function.result import Result, WindowMembership
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.master.failover import StateReplicator
from agent.runtime.master.job_log import JobLog
from agent.runtime.master.result_archive import ResultRecord, ResultRecords
from agent.runtime.master.result_log import ResultLog
from agent.runtime.master.rollout import Rollout
from agent.runtime.master.state import JobState
from agent.runtime.master.subscribers import Subscribers
from agent.runtime.messages.jobs import (
    Announce,
    Answer,
    Ask,
    Commit,
    Enrol,
    Follow,
    Leave,
    NoJob,
    Ready,
    Replicated,
    Stopped,
    Update,
)
from agent.runtime.messages.programs import CannotRun, Line, LogLines, ProgramFailed
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.messages.versions import VersionPrepared
from agent.runtime.model.fields import Reason
from agent.runtime.model.panes import END, FIRST_PANE, Run
from agent.runtime.reduce.combiner import PaneSpan
from agent.runtime.reduce.straggler import HoldbackTimer
from overlay import Node, Peer

ANNOUNCE_S = 3.0
FIRST_ANNOUNCEMENTS_S = (0.0, 0.3, 0.7, 1.0)
"""Between the first ones: trees are being mended when a master takes over."""


class Announcing:
    """Of one master in office. A new job and a new version are told at once, everything again every few seconds."""

    def __init__(
        self, master: JobState, changes: Rollout, followers: Subscribers, peer: Peer, name: str, now: float
    ) -> None:
        self._master = master
        self._changes = changes
        self._followers = followers
        self._peer = peer
        self._name = name
        self._said = self._version = 0
        self._next_at = now

    def is_due(self, now: float, ahead_s: float = 0.0) -> bool:
        """Whether the job is to be announced now; or soon, where the fleet has been told of it often enough."""
        ahead_s = ahead_s if self._said >= len(FIRST_ANNOUNCEMENTS_S) else 0.0
        return now >= self._next_at - ahead_s or self._version != self._changes.begun()[-1].number

    def next(self, now: float) -> Announce:
        """What the fleet is told of the job now, and then again."""
        pauses, announce = FIRST_ANNOUNCEMENTS_S, self.announcement()
        # Masters of different jobs should not speak in the same instant: what they wait depends on the job.
        jitter = 0.9 + 0.2 * (hash((announce.app_id, self._said)) % 1000) / 1000
        self._said, self._version = self._said + 1, announce.version
        pause = pauses[self._said] if self._said < len(pauses) else ANNOUNCE_S
        self._next_at = now + pause * jitter
        return announce

    def announcement(self) -> Announce:
        """What there is to be told."""
        master, job, newest = self._master, self._master.job, self._changes.begun()[-1]
        bundle = newest.bundle
        return Announce(
            app_id=job.app_id,
            epoch=master.epoch,
            master=self._peer,
            master_name=self._name,
            name=job.name,
            stream=job.stream,
            text=newest.text,
            bounded=job.bounded,
            version=newest.number,
            frontier=self._followers.frontier,
            agents=master.ready.bit_count(),
            expected=master.roster.present().bit_count(),
            proposed=self._changes.proposed,
            creator=master.creator,
            counter=bundle.seal.counter if bundle is not None else 0,
            mandate=bundle.digest(job.app_id) if bundle is not None else b"",
            part_of=master.part_of,
            trees=master.trees,
        )


SETTLE_S = 1.0
"""Bounded input may be read to its end before everyone has enrolled: no window goes out earlier than this."""
NOBODY_S = 5.0
"""A job over what logs hold is over when no agent with its stream has come forward for so long."""
UNFOLLOWED_S = 30.0
"""An attached job that nobody has followed for so long stops."""
LINGER_S = 30.0
"""For so long a job that is over can still be followed, to see its last results."""
REPLICATION_S = 0.5
"""Replicas that do not answer hold up a result for no longer than this."""
HAND_OVER_S = 1.0
HEIR_S = 3.0
"""Nothing goes out for so long after an attempt to hand over that nobody declines: the heir may be in office, and this
not be known here yet. It would not learn of what went out, and agents would free what it still needs."""
RESULT_BYTES_MAX = 48 << 20
"""A larger result loses its last rows."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What is ready to go out, once the replicas hold its revision."""

    revision: int
    frontier: int
    results: tuple[tuple[int, Result], ...]
    json: tuple[tuple[int, bytes], ...]
    attendance: Mapping[int, WindowMembership]
    release_at: float


class JobMaster:
    """`log` holds the last results, `replicas` is how many agents are to hold the master's descriptor.

    `on_result` is called with each result as it goes out, `record` with those of live jobs as lines of a log.
    """

    def __init__(
        self,
        master: JobState,
        part: LocalJob,
        log: ResultLog,
        post: MessageSender,
        node: Node,
        name: str,
        programs: Programs,
        now: float,
        *,
        replicas: int,
    ) -> None:
        self.master = master
        self.part = part
        self.on_result: Callable[[Result], None] | None = None
        self._record: Callable[[ResultRecord], None] | None = None
        self._records = ResultRecords(master)
        self.ended: Reason | None = None
        self.followers = Subscribers(master, log, post, name)
        self.followers.frontier = master.published_upto
        self._replication = StateReplicator(master, log, post, node, replicas)
        self._post = post
        self._node = node
        self._name = name
        self._programs = programs
        self._app_id = master.job.app_id
        self._holdback = HoldbackTimer(now, master.written_off, took_over=master.epoch.counter > 1)
        self._began_at = now
        self._followed_at = now
        self._ended_at = now
        self._hand_over_at = now
        self._attempts = 0
        self._silent_until = now
        self._resigns = False
        self.changes = Rollout(
            master, post, self._give, self._replication.is_held, self.followers.acknowledge, REPLICATION_S
        )
        self.announcing = Announcing(master, self.changes, self.followers, node.peer, name, now)
        self._outcomes: deque[_Outcome] = deque()
        self.log = JobLog()

    # What agents ask.

    def enrol(self, sender: Peer, message: Enrol, now: float) -> bool:
        """Answers an agent that wants to take part."""
        enrolled = self.master.enrol(sender.node_id, message.agent, works=message.works, before=message.number)
        if enrolled is None:
            return False
        self._post.send(sender, msgspec.structs.replace(enrolled, versions=self.changes.begun()), now)
        self.followers.acknowledge(now)
        return True

    def acknowledge(self, sender: Peer, message: Ready, now: float) -> bool:
        """Notes that an agent runs the job."""
        if not self.master.knows(sender.node_id, message.number):
            return False
        self.master.acknowledge(sender.node_id, message)
        self.changes.tick(now)
        self.followers.acknowledge(now)
        return True

    def update(self, sender: Peer, message: Update, now: float) -> None:
        """Answers who wants the job to compute something else, once that is settled."""
        if self.ended is not None:
            self._post.send(sender, NoJob(self._app_id), now)
        else:
            self.changes.update(sender, message, now)

    def prepared(self, sender: Peer, message: VersionPrepared, now: float) -> bool:
        """Notes that an agent is ready for the version that is prepared."""
        if not self.master.knows(sender.node_id, message.number):
            return False
        self.changes.prepared(message, now)
        return True

    # What the job's code says.

    def told(self, sender: Peer, message: LogLines) -> bool:
        """Lines for the job's log."""
        if not self._runs_code(sender):
            return False
        self.log.add(message.lines)
        return True

    def _runs_code(self, sender: Peer) -> bool:
        """Whether the job's code can run there: beside workers, and here."""
        return sender.node_id == self._node.peer.node_id or bool(self.master.roster.numbers_of(sender.node_id))

    def unable(self, sender: Peer, message: CannotRun) -> bool:
        """Notes that an agent cannot run the job's code: it is expected, and missing."""
        if not self.master.knows(sender.node_id, message.number):
            return False
        agent = 1 << message.number
        if not self.master.written_off & agent:
            self._note(message.agent, f"this agent cannot run the job: {message.reason}")
        self.master.roster.begin(message.number, message.first_pane)
        self._holdback.write_off(agent)
        self.master.written_off = self._holdback.written_off
        return True

    def broken(self, sender: Peer, message: ProgramFailed, now: float) -> bool:
        """The job's code has failed on an agent: that ends the job."""
        if not self._runs_code(sender):
            return False
        if self.ended is None:
            for line in (*message.text.splitlines(), f"this ends the job: {message.reason}"):
                self._note(message.agent, line)
            self.master.failure = f"its code has failed on {message.agent}: {message.reason}"
            self.stop(now, "failed")
        return True

    def note(self, text: str) -> None:
        """A line of the master's own for the job's log."""
        self._note(self._name, text)

    def _note(self, agent: str, text: str) -> None:
        self.log.add([Line(self._programs.wall_ms, agent, text)])

    def _give(self, now: float) -> int:
        return self._replication.publish((), now)

    def dismiss(self, sender: Peer, message: Leave, now: float) -> bool:
        """Notes that an agent leaves."""
        if not self.master.knows(sender.node_id, message.number):
            return False
        self.master.dismiss(message.number, message.last_pane)
        self.followers.acknowledge(now)
        return True

    def follow(self, sender: Peer, message: Follow, now: float) -> None:
        """Sends results to an agent from now on."""
        self._followed_at = now
        self.followers.follow(sender, message, now)
        if self.ended is not None:
            self.followers.finish(self.ended, now)

    def answer(self, message: Ask) -> Answer:
        """Tells the last results that are out."""
        job, log = self.master.job, self.followers.log
        results = [
            (pane, json if len(json) <= message.bytes_max else b"") for pane, json in log.last_results(message.windows)
        ]
        return Answer(job.app_id, job.name, self.master.text, self.master.columns, results)

    def stop(self, now: float, reason: Reason = "stopped") -> None:
        """Ends the job everywhere."""
        if self.ended is None:
            self.ended, self._ended_at = reason, now
            self.followers.finish(reason, now)
            self._post.multicast(FLEET_GROUP, Stopped(self._app_id, self.master.epoch, reason), now)

    def replicated(self, sender: Peer, message: Replicated, now: float) -> None:
        """An agent holds what a successor needs."""
        self._replication.confirmed(sender, message)
        if message.declined and message.declined == self._attempts:
            self._silent_until = now
        self._release(now)
        self.changes.tick(now)

    # Time.

    def tick(self, now: float) -> None:
        """Whatever is due; to be called a few times a second."""
        self.followers.expire(now)
        if self.ended is not None:
            return
        if len(self.followers):
            self._followed_at = now
        elif self.master.job.attached and now - self._followed_at > UNFOLLOWED_S:
            self.stop(now)
            return
        if self.master.job.bounded and not len(self.master.roster) and now - self._began_at > NOBODY_S:
            self.stop(now, "nobody")
            return
        self.on_complete(now)
        self.changes.tick(now)
        self._replication.refresh(now)
        if now >= self._hand_over_at and self._node.is_active:
            self._hand_over(now)

    def resign(self, now: float) -> None:
        """Its agent leaves: any other is a better master."""
        self._resigns, self._hand_over_at = True, now
        self.tick(now)

    def _hand_over(self, now: float) -> None:
        """To the agent that is closer to the appId, or, from one that leaves, to one of the nearest."""
        self._hand_over_at = now + HAND_OVER_S
        heir = self._replication.successor() if self._resigns else self._node.closest(self._app_id)
        if heir is not None and heir.node_id != self._node.peer.node_id:
            self._attempts += 1
            self._silent_until = now + HEIR_S
            self._replication.hand_over(heir, self._attempts, now, leaving=self._resigns)

    def has_lingered(self, now: float) -> bool:
        """Whether the job is over and has been for long."""
        return self.ended is not None and now - self._ended_at > LINGER_S

    # Results.

    def write_off(self, node_id: int, now: float) -> None:
        """An agent is known to be dead: no pane waits for it."""
        agents = self.master.roster.numbers_of(node_id)
        if agents and self.ended is None:
            self._holdback.write_off(agents)
            self.master.written_off = self._holdback.written_off
            self.master.runs(agents, no_longer=True)
            self.followers.acknowledge(now)

    @property
    def reads_app(self) -> bool:
        """Whether the job reads another job's results, which only the master's agent does."""
        return self.master.app is not None

    def known(self) -> int:
        """Bitmap of the agents on the roster."""
        return self.master.roster.known()

    def on_complete(self, now: float) -> None:
        """Publishes the runs that every source has reached, unless they are held back for missing agents."""
        if self.ended is None and self.master.failure is None:
            spans, written_off = self.part.nodes.complete_spans(), self._holdback.written_off
            if spans and not self._holds_back(spans, now):
                self._publish(self.part.nodes.complete_runs(), now)
                self.master.runs(self._holdback.written_off & ~written_off, no_longer=True)
                self._holdback.contributed(spans[-1].whole)
                if self.master.versions.at(spans[-1].upto) is self.master.versions.newest:
                    self.master.runs(spans[-1].contributors)
                self.followers.acknowledge(now)
        self._release(now)

    def _holds_back(self, spans: Iterable[PaneSpan], now: float) -> bool:
        master = self.master
        if master.job.bounded and master.frontier == FIRST_PANE and now - self._began_at < SETTLE_S:
            return True
        missing = 0
        for span in spans:
            if span.upto < master.versions.at(span.upto).version.starts:
                continue  # between the last window of one version and the first of the next there is nothing to miss
            missing |= master.roster.expected(span.upto) & ~span.whole
        waits = self._holdback.holds_back(missing, now)
        master.written_off = self._holdback.written_off
        return waits

    def _publish(self, runs: Iterable[Run], now: float) -> None:
        results: list[tuple[int, Result]] = []
        attendance: dict[int, WindowMembership] = {}
        for run in runs:
            results += self.master.publish(run).items()
            attendance |= self.master.attendance or {}
            if self.master.failure is not None:
                break
        json: list[tuple[int, bytes]] = []
        if len(self.followers) or not self.master.job.bounded or self.part.program is not None:
            json = [(pane, result.to_bytes(RESULT_BYTES_MAX)) for pane, result in results]
        revision = self._replication.publish(json, now)
        outcome = _Outcome(
            revision, self.master.published_upto, tuple(results), tuple(json), attendance, now + REPLICATION_S
        )
        self._outcomes.append(outcome)

    def _release(self, now: float) -> None:
        """Sends out what the replicas hold."""
        while self._outcomes:
            outcome = self._outcomes[0]
            is_held = self._replication.is_held(outcome.revision)
            if now < self._silent_until or (not is_held and now < outcome.release_at):
                return
            self._outcomes.popleft()
            self.followers.frontier = outcome.frontier
            self.followers.publish(outcome.json, now)
            self._note_down(outcome)
            for _, json in outcome.json:
                self._call_back(json)
            if self.on_result is not None:
                for _, result in outcome.results:
                    self.on_result(result)
            self._post.multicast(self._app_id, Commit(self._app_id, self.master.epoch, outcome.frontier), now)
            if outcome.frontier == END:
                self.stop(now, "finished")
        if self.master.failure is not None:
            self.stop(now, "failed")

    def record(self, listener: Callable[[ResultRecord], None]) -> None:
        """Gives what goes out from now on to a log, and what the master before has said last."""
        if not self.master.job.bounded:
            self._record, self.master.attendance = listener, {}
            for record in self._records.inherited(self.followers.log):
                listener(record)

    def _note_down(self, outcome: _Outcome) -> None:
        if self._record is None:
            return
        program = self.part.program
        maps = program is not None and program.maps
        for (pane, result), (_, json) in zip(outcome.results, outcome.json, strict=True):
            self._record(self._records.record(result, json, outcome.attendance[pane], maps=maps))

    def _call_back(self, json: bytes) -> None:
        if (program := self.part.program) is not None:
            self._programs.call(program, Published(self._programs.place(program), program.app, json))

    def depose(self, now: float) -> None:
        """Another master is in office: it has taken over with what is waiting here as published."""
        for outcome in self._outcomes:
            self.followers.publish(outcome.json, now)
            self._note_down(outcome)
        self._outcomes.clear()
