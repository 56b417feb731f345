"""Decides whom to believe if an agent announces that it is a job's next master: any agent of the fleet can multicast.

Theory. A job's master is the agent nearest to the appId, which every agent reaches by routing; so whoever hears of a
further epoch asks that agent, and believes the answer. One that knows all agents near the appId sees for itself that
the new master is the nearest of them.

The nearest agent itself may be wrong: it has just come, has stood still while another took over, or was cut off with a
part of the fleet. It asks the agents near it whom they follow, and does as most of them do; those who still follow its
own earlier process do not count. If most follow it still, it goes on; it outdoes a rival with the next epoch if some
follow that one, or if it does not give up. An agent to which a master has handed over is believed at once: by that
master, and by the nearest agent, which that master tells. So is a master that begins a further epoch of its own: asked
itself, it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Announce, NoJob
from agent.runtime.messages.mastership import FollowAnswer, FollowQuestion, MasterRequest
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Message
from agent.runtime.requests.pending import NoAnswer, PendingRequests
from overlay import Id, Node, Peer, Requested

OPEN_MAX = 256
"""Upper bound on claims that wait to be confirmed; further ones wait for the next announcement."""
TIMEOUT_S = 5.0
"""Time to wait for a confirmation."""
ASKED_MAX = 5
"""Number of agents near it that the nearest agent asks whom they follow."""
POLL_S = 1.0
"""Time for which it waits for their answers."""
RIVAL_S = 10.0
"""Time for which a master is content that nobody follows its rival."""
OUTDO_S = 30.0
"""Interval in which a master outdoes rivals: each new epoch makes all of the job's agents enrol anew."""
REMEMBERED_MAX = 1024
"""Upper bound on the rivals, and on the successors, that are remembered."""


class MastersHere(Protocol):
    """The masters on this agent."""

    def leads(self, app_id: Id) -> bool: ...
    def has_appointed(self, app_id: Id, epoch: JobEpoch) -> bool: ...
    def stands_still_for(self, app_id: Id, node_id: Id, now: float) -> bool: ...
    def was_away(self, app_id: Id, node_id: int) -> bool: ...
    def outdo(self, app_id: Id, rival: JobEpoch, now: float) -> None: ...


@dataclass(slots=True)
class _Poll:
    """Answers of the agents near this one about a claim."""

    claim: Announce
    asked: set[int]
    until: float
    answers: dict[int, JobEpoch | None] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return self.asked <= self.answers.keys()


@dataclass(slots=True)
class _Rival:
    """An agent that claims to be the master, and is not followed."""

    since: float
    heard_at: float
    outdone_at: float


class MasterClaims:
    """Takes the announcements of epochs that the directory does not know yet, and has it believe those that are true.

    `is_leaving`: whether this agent takes over nothing more.
    """

    name = "claims"

    def __init__(
        self,
        node: Node,
        sender: MessageSender,
        directory: JobDirectory,
        masters: MastersHere,
        pending: PendingRequests,
        is_leaving: Callable[[], bool],
    ) -> None:
        self._node = node
        self._sender = sender
        self._directory = directory
        self._masters = masters
        self._pending = pending
        self._is_leaving = is_leaving
        self._open: set[Id] = set()
        self._polls: dict[Id, _Poll] = {}
        self._successors: dict[Id, JobEpoch] = {}
        self._rivals: dict[Id, _Rival] = {}
        self._unconfirmed = 0
        self._outdone = 0

    def handlers(self) -> Handlers:
        return {
            MasterRequest: Handler(Via.REQUEST, self._confirm),
            FollowQuestion: Handler(Via.DIRECT, self._asked),
            FollowAnswer: Handler(Via.DIRECT, self._answered),
        }

    def statistics(self) -> Mapping[str, int]:
        return {"unconfirmed": self._unconfirmed, "outdone": self._outdone}

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for `tick`."""
        return not self._polls

    def claimed(self, claim: Announce, now: float) -> bool:
        """Believes a claim, or finds out whether it is true; False if it cannot be."""
        app_id, epoch, known = claim.app_id, claim.epoch, self._directory.get(claim.app_id)
        if known is not None and epoch.is_jump_from(known.epoch):
            return False
        if self._masters.has_appointed(app_id, epoch):
            self._tell_nearest(app_id, epoch, now)
            return self._directory.believe(claim, now)
        if self._successors.get(app_id) == epoch or self._is_nearest_known(app_id, epoch.master):
            return self._directory.believe(claim, now)
        if self._node.is_root(app_id):
            self._poll(claim, now)
        elif app_id not in self._open and len(self._open) < OPEN_MAX:
            self._open.add(app_id)
            self._pending.request(
                MasterRequest(app_id), TIMEOUT_S, lambda answer, then: self._told(claim, answer, then), now
            )
        return True

    def _is_nearest_known(self, app_id: Id, node_id: int) -> bool:
        """Whether an agent is the nearest to the appId of all that are near it, as far as this agent knows them."""
        node = self._node
        return node.is_active and node.leaf_set.covers(app_id) and node.closest(app_id).node_id == node_id

    def _tell_nearest(self, app_id: Id, epoch: JobEpoch, now: float) -> None:
        """Tells the agents of which one is, or will be, the nearest who the next master is."""
        for peer in self._node.neighbours(ASKED_MAX):
            self._sender.send(peer, FollowAnswer(app_id, epoch), now)

    # Agents that are not the nearest.

    def _told(self, claim: Announce, answer: Message | NoAnswer, now: float) -> None:
        self._open.discard(claim.app_id)
        if isinstance(answer, Announce) and answer.app_id == claim.app_id:
            known = self._directory.get(claim.app_id)
            is_sound = answer.master.node_id == answer.epoch.master
            if is_sound and (known is None or answer.epoch > known.epoch):
                self._directory.believe(answer, now)
        known = self._directory.get(claim.app_id)
        self._unconfirmed += known is None or known.epoch < claim.epoch

    def _confirm(self, message: MasterRequest, requested: Requested, now: float) -> None:
        """Answers whom this agent follows."""
        self._sender.respond(requested, self._directory.get(message.app_id) or NoJob(message.app_id), now)

    # The nearest agent.

    def _poll(self, claim: Announce, now: float) -> None:
        """Asks the agents near this one, and the job's master so far, whom they follow."""
        app_id, known, open_poll = claim.app_id, self._directory.get(claim.app_id), self._polls.get(claim.app_id)
        is_new = open_poll is None or claim.epoch > open_poll.claim.epoch
        if not is_new or (open_poll is None and len(self._polls) >= OPEN_MAX):
            return
        asked = {peer.node_id: peer for peer in self._node.neighbours(ASKED_MAX)}
        if known is not None and known.master.node_id != self._node.peer.node_id:
            asked[known.master.node_id] = known.master
        if known is None or known.epoch.master != claim.epoch.master:
            asked.pop(claim.epoch.master, None)
        poll = self._polls[app_id] = _Poll(claim, set(asked), now + POLL_S)
        self._sender.send_all(asked.values(), FollowQuestion(app_id, claim.epoch), now)
        if poll.is_complete:
            self._conclude(poll, now)

    def _asked(self, message: FollowQuestion, sender: Peer, now: float) -> None:
        known = self._directory.get(message.app_id)
        self._sender.send(sender, FollowAnswer(message.app_id, known.epoch if known is not None else None), now)

    def _answered(self, message: FollowAnswer, sender: Peer, now: float) -> bool:
        poll, known = self._polls.get(message.app_id), self._directory.get(message.app_id)
        is_master = known is not None and known.epoch.master == sender.node_id
        if is_master and known is not None and message.epoch is not None and message.epoch > known.epoch:
            self._successors.pop(message.app_id, None)
            self._successors[message.app_id] = message.epoch
            _bound(self._successors)
        if poll is None or sender.node_id not in poll.asked:
            return is_master
        poll.answers[sender.node_id] = message.epoch
        if poll.is_complete:
            self._conclude(poll, now)
        return True

    def tick(self, now: float) -> None:
        """Decides where answers have been waited for long enough."""
        for poll in list(self._polls.values()):
            if now >= poll.until:
                self._conclude(poll, now)

    def _conclude(self, poll: _Poll, now: float) -> None:
        claim = poll.claim
        app_id, epoch, known = claim.app_id, claim.epoch, self._directory.get(claim.app_id)
        del self._polls[app_id]
        if known is not None and known.epoch >= epoch:
            return
        epochs = [one for one in poll.answers.values() if one is not None and not self._was_here(claim, one)]
        followers = epochs.count(epoch)
        others = len(epochs) - followers
        if known is None:
            is_true = followers >= others
        elif self._masters.leads(app_id):
            is_true = followers > others or not poll.asked
        else:
            # The master so far is dead or gone, and this agent takes over nothing: better a master than none.
            is_gone = self._is_leaving() and known.epoch.master not in poll.answers
            is_handed_over = self._successors.get(app_id) == epoch
            is_true = followers > others or not poll.asked or is_handed_over or is_gone
        if is_true:
            self._rivals.pop(app_id, None)
            self._directory.believe(claim, now)
            return
        self._unconfirmed += 1
        if known is not None and self._masters.leads(app_id) and epoch.is_same_job(known.epoch):
            self._resist(app_id, epoch, now, has_followers=followers > 0)

    def _was_here(self, claim: Announce, epoch: JobEpoch) -> bool:
        """Whether an epoch is that of an earlier process of this agent, which a claim may follow."""
        is_gone = epoch.master == self._node.peer.node_id and not self._masters.leads(claim.app_id)
        return is_gone and claim.epoch.is_same_job(epoch) and not claim.epoch.is_jump_from(epoch)

    def _resist(self, app_id: Id, epoch: JobEpoch, now: float, *, has_followers: bool) -> None:
        """Outdoes a rival of the master here, if need be."""
        rival = self._rivals.setdefault(app_id, _Rival(now, now, now - OUTDO_S))
        _bound(self._rivals)
        if now - rival.heard_at >= RIVAL_S:
            rival.since = now
        rival.heard_at = now
        # A rival that was away has led its own side of a cut, whose windows are to be merged.
        is_due = (
            has_followers
            or now - rival.since >= RIVAL_S
            or self._masters.was_away(app_id, epoch.master)
            or self._masters.stands_still_for(app_id, epoch.master, now)
        )
        if is_due and now - rival.outdone_at >= OUTDO_S:
            rival.outdone_at = now
            self._outdone += 1
            self._masters.outdo(app_id, epoch, now)


def _bound(remembered: dict[Id, JobEpoch] | dict[Id, _Rival]) -> None:
    """Forgets the oldest entry of too many."""
    if len(remembered) > REMEMBERED_MAX:
        del remembered[next(iter(remembered))]
