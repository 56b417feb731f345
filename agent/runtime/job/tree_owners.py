"""Makes windows on this agent where it is the owner of trees of jobs, as their masters decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

import query
from agent.runtime.function.consolidated_windows import OPEN_BYTES_MAX
from agent.runtime.function.versions import Beside, InForce
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Decision, OwnerLost, Snapshot
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.containment import Clock
from agent.runtime.model.meters import Work, WorkMeter
from agent.runtime.reduce.owned_states import decoded_windows, encoded_old, encoded_windows
from agent.runtime.reduce.owner import OwnedWindow, TreeOwner, WindowSpan
from overlay import Id, Peer

WINDOWS_TOO_LARGE = (
    f"open windows of one owner take more than {OPEN_BYTES_MAX >> 30} GiB: choose shorter ones, or give the job more"
    " trees"
)
WAITING_MAX = 256
"""Upper bound on decisions that wait for what other owners give; masters repeat others."""


class TreeOwners:
    """The owners on one agent, and the masters that they answer to."""

    name = "owners"

    def __init__(self, jobs: LocalJobs, sender: MessageSender, clock: Clock) -> None:
        self._clock = clock
        self._busy_s: dict[tuple[Id, int], float] = {}
        """Time of the process at the last answer of each owner."""
        self._jobs = jobs
        self._sender = sender
        self._waiting: dict[tuple[Id, int], tuple[Decision, Peer]] = {}
        self._windows = self._lost = self._given = 0
        jobs.take_given = self.take_given

    def handlers(self) -> Handlers:
        return {Decision: Handler(Via.DIRECT, self.decide), OwnerLost: Handler(Via.DIRECT, self.lost)}

    def statistics(self) -> Mapping[str, int]:
        trees = sum(owner.has_panes for owner in self._owners())
        counted = {"windows": self._windows, "given": self._given, "lost": self._lost}
        return {"trees": trees, "merged": sum(owner.merged for owner in self._owners()), **counted}

    def _owners(self) -> Iterator[TreeOwner]:
        return (node.owner for job in self._jobs for node in job.nodes)

    def decide(self, message: Decision, sender: Peer, now: float) -> bool:
        """Makes the windows that end with panes that the master has decided on; False if it is of another epoch, not
        from the master, or of what is not known here yet: the master asks again."""
        job = self._jobs.get(message.app_id)
        if job is None or message.epoch != job.epoch or sender.node_id != message.epoch.master:
            return False
        if message.tree >= len(job.nodes) or message.after >= message.upto:
            return False
        if not job.is_installed or job.versions is None:
            return False
        version, owner = job.versions.at(message.upto), job.nodes[message.tree].owner
        if version.version.number != message.version or not (version.function.is_consolidated or owner.has_panes):
            return False
        if owner.lacks(message):
            if len(self._waiting) < WAITING_MAX:
                self._waiting[message.app_id, message.tree] = (message, sender)
            return True
        if message.gives is not None:
            self._give(job, message)
        begun_s = self._clock()
        spans = _made(owner, message, version, job.versions.beside(message.upto), job.nodes.work)
        if spans is None:
            self._lost += 1
            self._sender.send(sender, OwnerLost(message.app_id, message.epoch, message.tree), now)
            return True
        encoded_s = self._clock()
        answers = [
            msgspec.structs.replace(_snapshot(message, after, upto, windows), old_windows=encoded_old(older))
            for after, upto, windows, older in spans
        ]
        heights = [window.state.height for span in spans for window in span.windows]
        job.nodes.work.note(Work.ENCODE, len(heights), sum(heights), self._clock() - encoded_s)
        ended_s, key = self._clock(), (job.app_id, message.tree)
        busy_s, self._busy_s[key] = ended_s - self._busy_s.get(key, begun_s), ended_s
        if answers:  # else it is known
            work_us, busy_us = round(1e6 * (ended_s - begun_s)), round(1e6 * busy_s)
            measured = {
                "loads": owner.take_loads(),
                "work_us": work_us,
                "busy_us": busy_us,
                "work": job.nodes.work.take(),
            }
            answers[0] = msgspec.structs.replace(answers[0], **measured)
        for answer in answers:
            job.nodes[message.tree].answers.add(answer)
            self._windows += len(answer.windows) + len(answer.old_windows)
        self._jobs.has_work(job)
        if owner.memory_bytes > OPEN_BYTES_MAX:
            self._sender.send(sender, OwnerLost(message.app_id, message.epoch, message.tree, WINDOWS_TOO_LARGE), now)
        return True

    def forget(self, app_id: Id, _now: float) -> None:
        """Forgets a job that is over."""
        for tree in range(query.TREES_MAX):
            self._waiting.pop((app_id, tree), None)
            self._busy_s.pop((app_id, tree), None)

    def _give(self, job: LocalJob, decision: Decision) -> None:
        """Gives another owner the state of groups that move to its tree."""
        assert decision.gives is not None
        groups, tree, peer = decision.gives
        node = job.nodes[decision.tree]
        if not node.owner.awaits(decision):
            return  # it is known
        windows = node.owner.given(decision, groups)
        given = _snapshot(decision, decision.after, decision.after + 1, windows)
        given = msgspec.structs.replace(given, stage="given", to_tree=tree)
        self._given += 1
        node.given_to = peer
        node.given.add(given)

    def take_given(self, job: LocalJob, message: Snapshot, sender: Peer, now: float) -> bool:
        """Takes what another owner has of open windows, and makes those that have waited for it."""
        if message.epoch != job.epoch or job.versions is None or message.to_tree >= len(job.nodes):
            return False
        version = job.versions.at(message.upto)
        if version.version.number != message.version or not version.function.is_consolidated:
            return False
        windows = decoded_windows(message, version.function)
        giver = (message.tree, sender.node_id, message.after)
        if windows is None or not job.nodes[message.to_tree].owner.take_given(giver, windows):
            return False
        waiting = self._waiting.pop((job.app_id, message.to_tree), None)
        if waiting is not None:
            self.decide(*waiting, now)
        return True

    def lost(self, message: OwnerLost, sender: Peer, now: float) -> bool:
        """Tells the master here that an owner does not have what it is asked for."""
        job = self._jobs.get(message.app_id)
        if job is None or job.root is None or message.epoch != job.epoch:
            return False
        job.root.owner_lost(message, sender, now)
        return True

    def leave(self, now: float) -> None:
        """Tells masters of panes that are here, as this agent leaves."""
        for job in self._jobs:
            for node in job.nodes:
                if node.owner.has_panes and job.epoch is not None:
                    node.owner.give_up()
                    self._jobs.send_to_master(job, OwnerLost(job.app_id, job.epoch, node.tree), now)


def _made(
    owner: TreeOwner, decision: Decision, version: InForce, beside: Sequence[Beside], work: WorkMeter
) -> list[WindowSpan] | None:
    """The windows that end with panes that are decided on, as `TreeOwner.decide` says, and measured."""
    begun_s, before = work.clock(), (owner.taken + owner.merged, owner.taken_rows, owner.made, owner.made_rows)
    spans = owner.decide(decision, version, beside)
    made = None if spans is None else list(spans)
    taken, taken_rows, windows, rows = owner.taken + owner.merged, owner.taken_rows, owner.made, owner.made_rows
    states = max(0, taken - before[0])  # a further version begins to count anew
    work.note(Work.MADE, windows - before[2], rows - before[3])
    work.note(Work.MERGE, states, taken_rows - before[1] + rows - before[3], work.clock() - begun_s)
    return made


def _snapshot(decision: Decision, after: int, upto: int, windows: Sequence[OwnedWindow]) -> Snapshot:
    return Snapshot(
        decision.app_id, decision.epoch, decision.version, after, upto, b"", b"", [],
        tree=decision.tree, of_root=True, stage="windows", windows=encoded_windows(windows),
    )  # fmt: skip
