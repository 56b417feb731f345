"""Puts together the part of a dead agent of a keyed job, from what hosts tell that its query was given.

Theory. The runs of such an agent are made of nothing but events that it was given of logical nodes, and whoever hosts
these nodes now has them still (`agent.runtime.keyed.hosting.commits.given_rows`). So what all hosts tell, each of its
own nodes, is the run that the agent has sealed, or would have: it comes in its place as a copy would, and counts once
with it. It is put together once each agent of the job has answered, and each node that has been begun is in an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from agent.runtime.copies.held import read_copy
from agent.runtime.job.local_job import LocalJob
from agent.runtime.messages.copies import OWNERS_MAX, GivenRequest, GivenResponse
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import Run, add_counted, closed_ms
from overlay import Id

PANES_MAX = 1024
"""Upper bound on the panes that are looked at one by one; of more, all count as one."""
HasReadAll = Callable[[int, int], bool]
"""Whether time has waited for all that comes from outside at the agent, from a time on and before another."""


@dataclass(slots=True)
class _Asked:
    """The answers about one agent, by the node id of who has answered."""

    after: int
    upto: int
    answers: dict[int, GivenResponse] = field(default_factory=dict)

    def are_all(self, awaited: Collection[int]) -> bool:
        """Whether all who host nodes have answered, each of other nodes than the others."""
        nodes = begun = 0
        for answer in self.answers.values():
            told = int.from_bytes(answer.nodes, "little")
            if nodes & told:
                return False
            nodes, begun = nodes | told, begun | int.from_bytes(answer.begun, "little")
        return not begun & ~nodes and self.answers.keys() >= set(awaited)


class GivenParts:
    """The questions of one master in one epoch. `made` counts the parts that have been put together."""

    def __init__(self, app_id: Id, epoch: JobEpoch, sender: MessageSender) -> None:
        self.made = 0
        self._app_id, self._epoch, self._sender = app_id, epoch, sender
        self._asked: dict[Id, _Asked] = {}

    def ask(self, owners: Collection[Id], after: int, upto: int, now: float) -> None:
        """Asks all agents what these were given, in the panes in (after, upto]."""
        ids = sorted(owners)
        self._asked |= {owner: _Asked(after, upto) for owner in ids}
        for first in range(0, len(ids), OWNERS_MAX):
            message = GivenRequest(self._app_id, self._epoch, after, upto, ids[first : first + OWNERS_MAX])
            self._sender.multicast(FLEET_GROUP, message, now)

    def take(self, message: GivenResponse, sender: int, awaited: Collection[int]) -> list[GivenResponse]:
        """Takes an answer; returns all about that agent with the last of them. `awaited`: those who are to answer."""
        asked = self._asked.get(message.owner)
        if asked is None or message.after != asked.after or message.upto > asked.upto:
            return []
        asked.answers[sender] = message
        if not asked.are_all(awaited):
            return []
        del self._asked[message.owner]
        self.made += 1
        return list(asked.answers.values())


def runs_of(answers: Iterable[GivenResponse], number: int, local: LocalJob) -> list[Run] | None:
    """The runs of an agent, one for each tree, put together from what hosts have told; None if that is unsound."""
    answers = list(answers)
    upto = min(answer.upto for answer in answers)
    found: dict[int, list[Run]] = {}
    for encoded in (one for answer in answers for one in answer.runs):
        message = read_copy(encoded, local.app_id, len(local.nodes))
        bit = contributors.to_bytes(1 << number)
        run = message and local.sound_run(
            msgspec.structs.replace(message, contributors=bit, partial=bit if message.partial else b"")
        )
        if not run:
            return None
        found.setdefault(run.tree, []).append(run.within(run.after, upto))
    return [_together(runs, local) for _, runs in sorted(found.items())]


def _together(runs: list[Run], local: LocalJob) -> Run:
    assert local.versions is not None
    state = local.versions.combine([run.state for run in runs], runs[0].upto)
    partial = max(run.partial for run in runs)
    return replace(runs[0], state=state, counted=add_counted(run.counted for run in runs), partial=partial)


def told_apart(run: Run, counted: Mapping[int, object], pane_ms: int, has_read_all: HasReadAll) -> Iterator[Run]:
    """The parts of an agent's run that are in windows: it is `partial` where time has not waited for its logs, and no
    contributor where it has been given nothing either. `counted`: the panes with events."""

    def is_whole(after: int, upto: int) -> bool:
        return has_read_all(closed_ms(after, pane_ms) + 1, closed_ms(upto, pane_ms) + 1)

    if is_whole(run.after, run.upto):
        yield run
        return
    first = max(run.after // pane_ms * pane_ms + pane_ms, run.upto // pane_ms * pane_ms - PANES_MAX * pane_ms)
    after = run.after
    for pane in range(first, run.upto + 1, pane_ms):
        part = run.within(after, pane)
        after = pane
        if is_whole(part.after, part.upto):
            yield part
        elif pane in counted:
            yield replace(part, partial=part.contributors)
