"""Announces a job, and rolls out further versions of its function, at its master (DESIGN §4.4; paper §2.4).

    PREPARING ── all are ready, or the time is up ──▶ DECIDED ── replicas hold it ──▶ BEGUN ── all run it ──▶ over
        └── an agent cannot run it ──▶ over, refused

First every agent prepares: it gathers the events for the new version, beside the version in force, and reports the time
up to which it has seen events. The new version begins with a window after all these times. So no window is computed by
two versions, and none lacks the events that came while the message spread. Windows of the version before that are open
then go on beside it. An agent that misses the deadline starts with a later window and is listed as missing until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import query
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.event_clock import FUTURE_MS
from agent.runtime.master.results.subscribers import Subscribers
from agent.runtime.master.state import JobState, window_of
from agent.runtime.messages.jobs import LAGGARDS_MAX, Announce, Update, Updated
from agent.runtime.messages.sender import MessageSender
from agent.runtime.messages.versions import (
    VERSIONS_MAX,
    AbortVersion,
    ActivateVersion,
    Finishing,
    PrepareVersion,
    Version,
    VersionPrepared,
)
from agent.runtime.model import contributors
from agent.runtime.model.panes import FIRST_PANE, closed_ms
from overlay import Id, Peer

PREPARE_S = 3.0
"""Time to wait for all agents to prepare before a version is decided on without them."""
BEGIN_S = 3.0
"""Time to wait for all agents to run a version before the requester is told which ones do not."""
REPEAT_S = 0.5
STARTS_MAX = 8
"""Number of starts that are tried for a version whose windows and those of the version before have no common ends."""
BUSY = "version {number} of the job is being prepared at this moment: try again"
BOUNDED = "a job over what logs hold ends with them and is not changed: submit another one"
OTHER_STREAM = "an update keeps the job's stream, {stream}: to read {other}, submit another job"
OTHER_TREES = "a job keeps its trees, of which this one has {trees}: to have {other}, submit another job"
FULL = f"{VERSIONS_MAX} versions of the job have windows that are not out yet: wait for them"
UNREADY = "{names} is not ready for it in time"


_Asked = tuple[int, int]
"""The requester and the time of an update: its identity."""


class _Stage(Enum):
    PREPARING = auto()
    DECIDED = auto()
    BEGUN = auto()


@dataclass(slots=True)
class _Change:
    sender: Peer
    update: Update
    number: int
    window_ms: int
    shortest_ms: int
    since: float
    repeat_at: float
    stage: _Stage = _Stage.PREPARING
    prepared: int = 0
    opened: int = FIRST_PANE
    starts: int = FIRST_PANE
    revision: int = 0
    leaves_out: bool = False
    for_all: bool = False
    """Whether it is given up where not all agents are ready in time."""

    @property
    def asked(self) -> _Asked:
        return (self.sender.node_id, self.update.updated_ms)


@dataclass(slots=True)
class Rollout:
    """Rolls out updates of one master, one at a time. `replicate` replicates the state, `is_held` checks whether
    a revision is replicated, and `acknowledge` informs the subscribers.
    """

    state: JobState
    sender: MessageSender
    replicate: Callable[[float], int]
    is_held: Callable[[int], bool]
    acknowledge: Callable[[float], None]
    hold_up_s: float
    _change: _Change | None = None
    _last: tuple[_Asked, Updated] | None = None
    _numbers: int = 0

    @property
    def proposed(self) -> int:
        """The version that is being prepared, or is not replicated yet; 0 if there is none."""
        change = self._change
        return change.number if change is not None and change.stage is not _Stage.BEGUN else 0

    @property
    def is_under_way(self) -> bool:
        """Whether an update is not settled."""
        return self._change is not None

    def begun(self) -> list[Version]:
        """The versions in force that agents may know, which are the ones that a successor would know too."""
        versions, change = self.state.versions.all(), self._change
        return (versions[:-1] or versions) if change is not None and change.stage is _Stage.DECIDED else versions

    def update(self, sender: Peer, update: Update, now: float, *, for_all: bool = False) -> None:
        """Takes a request for an update, which may be a repeated one. `for_all`: it is given up where not all agents
        are ready in time."""
        asked, change = (sender.node_id, update.updated_ms), self._change
        if self._last is not None and asked == self._last[0]:
            self.sender.send(sender, self._last[1], now)
            return
        if change is not None:
            if asked != change.asked:
                self._answer(sender, update, now, refusal=BUSY.format(number=change.number))
            return
        self._numbers = max(self._numbers, self.state.version) + 1
        try:
            function = self._updated(update)
            lengths = window_of(function), _shortest_of(function)
        except query.PlanError as error:
            self.state.versions.withdraw()
            self._answer(sender, update, now, refusal=str(error))
            return
        newest = self.state.versions.newest.version
        if (newest.plan, newest.text, newest.bundle) == (update.plan, update.text, update.bundle):
            # Most likely the master that took the request first has failed meanwhile.
            self._change = _Change(sender, update, newest.number, *lengths, now, now, _Stage.BEGUN)
            self._change.starts, self._change.leaves_out = newest.starts, newest.leaves_out
        else:
            self._change = _Change(sender, update, self._numbers, *lengths, now, now, for_all=for_all)
        self.tick(now)

    def _updated(self, update: Update) -> JobFunction:
        """The function as updated. Raises `query.PlanError` if the job cannot be updated so."""
        job, versions = self.state.job, self.state.versions
        if job.bounded:
            raise query.PlanError(BOUNDED)
        if len(versions) >= VERSIONS_MAX:
            raise query.PlanError(FULL)
        function = versions.propose(self._numbers, update.plan, update.bundle)
        if function.plan.stream != job.stream:
            raise query.PlanError(OTHER_STREAM.format(stream=job.stream, other=function.plan.stream))
        other = function.plan.stated_trees
        if other is not None and other != self.state.ranges:
            raise query.PlanError(OTHER_TREES.format(trees=self.state.ranges, other=other))
        return function

    def prepared(self, message: VersionPrepared, now: float) -> None:
        """Notes that an agent on the roster is ready for the version, or cannot run it."""
        change = self._change
        if change is None or change.stage is not _Stage.PREPARING or message.version != change.number:
            return
        if message.refusal is not None:
            names = self.state.roster.names(1 << message.number)
            self._abort(now, f"{', '.join(names)} cannot run it: {message.refusal}")
            return
        change.prepared |= 1 << message.number
        latest = change.update.updated_ms + 2 * FUTURE_MS
        change.opened = max(change.opened, min(message.opened, latest))
        self.tick(now)

    def tick(self, now: float) -> None:
        """Continues as far as possible, and repeats messages that may be lost."""
        change = self._change
        if change is None:
            return
        if change.stage is _Stage.PREPARING and (not self._awaited() or now - change.since > PREPARE_S):
            if change.for_all and (awaited := self._awaited()):
                self._abort(now, UNREADY.format(names=", ".join(self.state.roster.names(awaited)[:LAGGARDS_MAX])))
                return
            self._decide(change, now)
        if change.stage is _Stage.DECIDED and (self.is_held(change.revision) or now - change.since > self.hold_up_s):
            change.stage, change.since, change.repeat_at = _Stage.BEGUN, now, now
        if now >= change.repeat_at:
            self._repeat(change, now)
        if change.stage is _Stage.BEGUN and (self.state.everyone_runs() or now - change.since > BEGIN_S):
            self._close(now)

    def _repeat(self, change: _Change, now: float) -> None:
        change.repeat_at = now + REPEAT_S
        epoch = self.state.epoch
        if change.stage is _Stage.PREPARING:
            update = change.update
            propose = PrepareVersion(self._app_id, epoch, change.number, update.plan, update.text, update.bundle)
            self.sender.multicast(self._app_id, propose, now)
        elif change.stage is _Stage.BEGUN:
            self.sender.multicast(self._app_id, ActivateVersion(self._app_id, epoch, self.state.versions.all()), now)

    def _awaited(self) -> int:
        """Bitmap of the agents that are not ready yet."""
        assert self._change is not None
        return self.state.roster.present() & ~self.state.written_off & ~self._change.prepared

    def _decide(self, change: _Change, now: float) -> None:
        """Begins the version with the first window of which no agent has seen an event."""
        after, change.starts = self._place(change)
        update, finishes = change.update, self._finishes(change)
        change.leaves_out = not update.reset and _is_cut_off(self.state.versions.newest.function, after)
        self.state.begin(
            Version(
                change.number, after, change.starts, update.plan, update.text, update.bundle, finishes,
                change.leaves_out,
            )
        )  # fmt: skip
        change.stage, change.since = _Stage.DECIDED, now
        change.revision = self.replicate(now)
        self.acknowledge(now)

    def _finishes(self, change: _Change) -> Finishing:
        """The way in which open windows go on beside the version. Owners of trees have panes of one version only."""
        if change.update.reset:
            return ""
        old, new = self.state.versions.newest.function, self.state.versions.proposal
        is_same = new is not None and (old.operator, old.code) == (new.operator, new.code)
        return "same" if is_same and self.state.trees == 1 else "own"

    def _place(self, change: _Change) -> tuple[int, int]:
        """The last pane of the version before, and the first window of this one."""
        state = self.state
        newest = state.versions.newest
        new, old, pane = change.window_ms, window_of(newest.function), newest.function.pane_ms
        assert pane is not None
        opened = change.opened if change.prepared else change.update.updated_ms
        # Its windows may be longer than those that groups move with, but for instant moves: they begin after these.
        moved = (move.pane for move in state.moved.moves if move.mode != "instant")
        opened = max(opened, closed_ms(state.published_upto, pane), newest.version.starts, *moved)
        # Where one divides the other, a window of the old version ends where the new one's begin.
        longer, shorter = max(new, old), min(new, old)
        step = longer if longer % shorter == 0 and not change.update.reset else new
        starts = (opened // step + 1) * step
        last = (starts - 1) // pane * pane
        if change.update.reset:
            ended = max(starts // old * old - pane, state.published_upto)
            return (ended if ended > newest.after else last), starts
        # Results come in order of their ends: no window ends before the last pane of the version before.
        for _ in range(STARTS_MAX):
            if last + pane <= starts + change.shortest_ms:
                break
            starts = -(-(last + pane - change.shortest_ms) // step) * step
            last = (starts - 1) // pane * pane
        return last, starts

    def _abort(self, now: float, refusal: str) -> None:
        assert self._change is not None
        self.sender.multicast(self._app_id, AbortVersion(self._app_id, self.state.epoch, self._change.number), now)
        self._close(now, refusal)

    def _close(self, now: float, refusal: str | None = None) -> None:
        change, self._change = self._change, None
        self.state.versions.withdraw()
        assert change is not None
        self._answer(change.sender, change.update, now, refusal=refusal, change=change)

    def _answer(
        self, sender: Peer, update: Update, now: float, *, refusal: str | None, change: _Change | None = None
    ) -> None:
        """Answers the requester; the last answer is repeated when the request is."""
        state = self.state
        answer = Updated(self._app_id, update.updated_ms, refusal)
        if refusal is None and change is not None:
            present = state.roster.present()
            answer = Updated(
                self._app_id,
                update.updated_ms,
                None,
                change.number,
                change.starts,
                state.ready.bit_count(),
                present.bit_count(),
                state.roster.names(present & ~state.ready)[:LAGGARDS_MAX],
                change.leaves_out,
            )
        if change is not None:
            self._last = (change.asked, answer)
        self.sender.send(sender, answer, now)

    @property
    def _app_id(self) -> Id:
        return self.state.job.app_id


def _shortest_of(function: JobFunction) -> int:
    """The length of the shortest windows (ms)."""
    windowing = function.plan.windowing
    lengths = () if windowing is None or windowing.session is not None else windowing.sizes
    return min((one.size_ms for one in lengths), default=window_of(function))


def _is_cut_off(function: JobFunction, after: int) -> bool:
    """Whether windows may be open after a pane that cannot go on beside another version."""
    windowing = function.plan.windowing
    if windowing is None or function.is_of_panes or function.can_finish:
        return False
    return windowing.session is not None or function.windows_upto(after) > after


ANNOUNCE_S, ANNOUNCE_MAX_S = 3.0, 8.0
"""Interval of announcements, and of those of an agent that leads many jobs: below the age at which they are doubted."""
UNHURRIED_JOBS = 64
"""Number of jobs beyond which an agent announces each of them more seldom, so that it announces no more in sum."""
FIRST_ANNOUNCEMENTS_S = (0.0, 0.3, 0.7, 1.0, 1.0, 1.0)
"""Delays of the first announcements: trees are being repaired when a master takes over."""


def interval_s(jobs: int) -> float:
    """The interval at which an agent that leads so many jobs announces each.

    >>> interval_s(1), interval_s(64), interval_s(128), interval_s(1000)
    (3.0, 3.0, 6.0, 8.0)
    """
    return min(ANNOUNCE_MAX_S, ANNOUNCE_S * max(1.0, jobs / UNHURRIED_JOBS))


class Announcing:
    """Times the announcements of one master: at once for a new job or version, and again every few seconds."""

    def __init__(
        self, state: JobState, rollout: Rollout, subscribers: Subscribers, peer: Peer, name: str, now: float
    ) -> None:
        self._state = state
        self._rollout = rollout
        self._subscribers = subscribers
        self._peer = peer
        self._name = name
        self._sent = self._version = 0
        self._made: Announce | None = None
        self.next_at = now
        """Time of the next announcement, unless a version is to be announced before."""

    def is_due(self, now: float, ahead_s: float = 0.0) -> bool:
        """Whether an announcement is due now, or within `ahead_s` if the first ones are over."""
        ahead_s = ahead_s if self._sent >= len(FIRST_ANNOUNCEMENTS_S) else 0.0
        return now >= self.next_at - ahead_s or self._version != self._rollout.begun()[-1].number

    def next(self, now: float, jobs: int, *, is_unchanged: bool = False) -> Announce:
        """The announcement to send now; sets the time of the next one. `jobs`: the number of them that this agent
        leads. `is_unchanged`: nothing has happened since the last look at the master, so the last one after it may be
        sent again."""
        pauses = FIRST_ANNOUNCEMENTS_S
        if self._made is None or not is_unchanged:
            self._made = self.announcement()
        announce = self._made
        # Masters of different jobs should not announce in the same instant: their intervals depend on the job.
        jitter = 0.9 + 0.2 * (hash((announce.app_id, self._sent)) % 1000) / 1000
        self._sent, self._version = self._sent + 1, announce.version
        pause = pauses[self._sent] if self._sent < len(pauses) else interval_s(jobs)
        self.next_at = now + pause * jitter
        return announce

    def look(self) -> None:
        """Notes a look at the master, which may have changed anything."""
        self._made = None

    def announcement(self) -> Announce:
        """The announcement, as of now."""
        state, job, newest = self._state, self._state.job, self._rollout.begun()[-1]
        bundle = newest.bundle
        return Announce(
            app_id=job.app_id,
            epoch=state.epoch,
            master=self._peer,
            master_name=self._name,
            name=job.name,
            stream=job.stream,
            text=newest.text,
            bounded=job.bounded,
            version=newest.number,
            frontier=self._subscribers.frontier,
            agents=state.ready.bit_count(),
            expected=state.roster.present().bit_count(),
            proposed=self._rollout.proposed,
            creator=state.creator,
            counter=bundle.seal.counter if bundle is not None else 0,
            mandate=bundle.digest(job.app_id) if bundle is not None else b"",
            part_of=state.part_of,
            trees=state.trees,
            members=contributors.to_bytes(state.roster.present()),
            incomplete=state.told_incomplete(self._subscribers.frontier),
            owner=job.owner,
            events=self._subscribers.events,
            closed=self._subscribers.closed_ms,
            keyed=state.versions.newest.function.plan.reads_types,
            owners=state.trees > 1,
            moved=state.moved,
        )
