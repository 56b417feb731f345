"""Finds out whether a job that has come from this agent's disk has a master, by asking the agents near this one.

Theory. A job's master is the agent nearest to the appId, or about to hand over to it, and all agents follow it. Whoever
starts again hears of it within an announcement's interval. A fleet that starts again as a whole need not wait so long:
the agent that is now the nearest asks its leaf set. Nobody leads the job if none of them follows a master, and if all
agents are back that the job has had there: otherwise one that is missing may be nearer, and become master right after.
Somebody's lie delays the job by no more than that interval, for which its other agents wait in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Replica
from agent.runtime.messages.mastership import MasterAnswer, MasterQuestion
from agent.runtime.messages.sender import MessageSender
from overlay import Id, Node, Peer

ASK_AGAIN_S = 1.0
"""Time after which an agent that has not answered is asked again."""


@dataclass(slots=True)
class _Search:
    """The agents that were asked, with the last time, and their answers: whether they follow a master."""

    asked: dict[Id, float] = field(default_factory=dict)
    answers: dict[Id, bool] = field(default_factory=dict)


class MasterSearch:
    """The searches of one agent, one a job."""

    name = "master_search"

    def __init__(self, node: Node, sender: MessageSender) -> None:
        self._node = node
        self._sender = sender
        self._searches: dict[Id, _Search] = {}

    def handlers(self) -> Handlers:
        return {MasterAnswer: Handler(Via.DIRECT, self._answered)}

    def statistics(self) -> Mapping[str, int]:
        return {"searches": len(self._searches)}

    def finds_nobody(self, descriptor: Replica, now: float) -> bool:
        """Whether the job of a descriptor certainly has no master; asks those who have not said."""
        near = {peer.node_id: peer for peer in self._node.leaf_set}
        if not near:
            return False
        search = self._searches.setdefault(descriptor.app_id, _Search())
        question = MasterQuestion(descriptor.app_id, descriptor.epoch, descriptor.revision)
        for node_id, peer in near.items():
            if node_id not in search.answers and now - search.asked.get(node_id, -ASK_AGAIN_S) >= ASK_AGAIN_S:
                search.asked[node_id] = now
                self._sender.send(peer, question, now)
        are_back = all(node_id in near for node_id in self._awaited(descriptor))
        return are_back and all(search.answers.get(node_id) is False for node_id in near)

    def _awaited(self, descriptor: Replica) -> set[Id]:
        """The other agents that the job has had in the range of this agent's leaf set."""
        present = {member.node_id for member in descriptor.members if member.last_pane is None}
        others = (present | {descriptor.epoch.master}) - {self._node.peer.node_id}
        return {Id(node_id) for node_id in others if self._node.leaf_set.covers(node_id)}

    def _answered(self, message: MasterAnswer, sender: Peer, _now: float) -> bool:
        search = self._searches.get(message.app_id)
        if search is None or sender.node_id not in search.asked:
            return False
        search.answers[sender.node_id] = message.follows
        return True

    def forget(self, app_id: Id) -> None:
        """Ends the search for a job's master."""
        self._searches.pop(app_id, None)
