"""Makes windows on this agent where it is the owner of trees of jobs, as their masters decide."""

from __future__ import annotations

from collections.abc import Mapping

import cbt
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Decision, OwnerLost, Snapshot
from agent.runtime.messages.sender import MessageSender
from agent.runtime.reduce.owner import WindowSpan
from overlay import Peer


class TreeOwners:
    """The owners on one agent, and the masters that they answer to."""

    name = "owners"

    def __init__(self, jobs: LocalJobs, sender: MessageSender) -> None:
        self._jobs = jobs
        self._sender = sender
        self._windows = self._lost = 0

    def handlers(self) -> Handlers:
        return {Decision: Handler(Via.DIRECT, self.decide), OwnerLost: Handler(Via.DIRECT, self.lost)}

    def statistics(self) -> Mapping[str, int]:
        owners = (node.owner for job in self._jobs for node in job.nodes)
        return {"trees": sum(owner.has_panes for owner in owners), "windows": self._windows, "lost": self._lost}

    def decide(self, message: Decision, sender: Peer, now: float) -> bool:
        """Makes the windows that end with panes that the master has decided on; False if it is of another epoch, or not
        from the master."""
        job = self._jobs.get(message.app_id)
        if job is None or job.epoch is None or message.epoch < job.epoch:
            return False
        if sender.node_id != message.epoch.master or message.after >= message.upto:
            return False
        node = job.nodes[message.tree] if message.epoch == job.epoch and message.tree < len(job.nodes) else None
        if node is None or not job.is_installed or job.versions is None:
            return False  # the master asks again
        version = job.versions.at(message.upto)
        if version.version.number != message.version or not version.function.is_consolidated:
            return False
        spans = node.owner.decide(message, version)
        if spans is None:
            self._lost += 1
            self._sender.send(sender, OwnerLost(message.app_id, message.epoch, message.tree), now)
            return True
        for span in spans:
            node.owner.answers.add(_answer(span, job, message))
            self._windows += len(span.windows)
        self._jobs.has_work(job)
        return True

    def lost(self, message: OwnerLost, sender: Peer, now: float) -> bool:
        """Tells the master here that an owner does not have what it is asked for."""
        job = self._jobs.get(message.app_id)
        if job is None or job.root is None or message.epoch != job.epoch:
            return False
        job.root.owner_lost(message.tree, sender, now)
        return True

    def leave(self, now: float) -> None:
        """Tells masters of panes that are here, as this agent leaves."""
        for job in self._jobs:
            for node in job.nodes:
                if node.owner.has_panes and job.epoch is not None:
                    node.owner.give_up()
                    self._jobs.send_to_master(job, OwnerLost(job.app_id, job.epoch, node.tree), now)


def _answer(span: WindowSpan, job: LocalJob, decision: Decision) -> Snapshot:
    windows = [(one.start_ms, one.size_ms, cbt.encode_frame(one.state)) for one in span.windows]
    return Snapshot(
        job.app_id, decision.epoch, decision.version, span.after, span.upto, b"", b"", [],
        tree=decision.tree, of_root=True, stage="windows", windows=windows,
    )  # fmt: skip
