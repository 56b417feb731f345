"""Gets the parts of agents that a job's complete panes lack: copies of what they had sealed, and what they were given.

Theory. The runs of an agent in a job with keyed elements are made of nothing but events that it was given of logical
nodes, and whoever hosts these nodes now has them still (`agent.runtime.keyed.hosting.commits.given_rows`). So what all
hosts tell, each of its own nodes, is the run that the agent has sealed, or would have: it comes in its place as a copy
would, and counts once with it. It is put together once each agent of the job has answered, and each node that has been
begun is in an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

import query
from agent.runtime.durable.records import Span
from agent.runtime.job.local_job import LocalJob
from agent.runtime.master.state import JobState
from agent.runtime.messages.copies import OWNERS_MAX, CopyRequest, GivenRequest, GivenResponse
from agent.runtime.messages.jobs import CODEC, Snapshot
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.model import contributors
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE, Run, add_counted, closed_ms, holds_panes
from agent.runtime.reduce.straggler import HoldbackTimer
from overlay import Id, Peer, WireError

ASK_AFTER_S = 1.0
"""Time for which an agent is lacking before it is asked for, unless it is known to be dead: who has lost its parent is
back by then."""
ASK_AGAIN_S = 1.0
"""Time after which agents are asked for again."""
ASKS_MAX = 3
"""Times that an agent is asked for in vain. Once it contributes, or a copy comes, it may be asked for again."""
COPIES_S = 0.25
"""Time for which a window that has all else waits for copies where nobody is waited for any more: of stragglers under
MIRROR, and of dead agents at the end of RECOVER FOR."""

PANES_MAX = 1024
"""Upper bound on the panes that are looked at one by one; of more, all count as one."""
RUN_BYTES_MAX = 64 << 20
"""Upper bound on a run that a host tells."""
HasWaitedFor = Callable[[int, int], bool]
"""Whether time has waited for all that comes from outside at the agent, from a time on and before another."""


class _Owner:
    """The copies of one agent, as far as a master knows. `since`: when panes began to lack it;
    `upto`: the last pane that has come as a copy."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.asked: tuple[int, float] | None = None
        self.asks = 0
        self.upto = FIRST_PANE

    def may_be_asked_for(self, frontier: int, now: float) -> bool:
        """Whether there is hope, and an answer would not be on its way already."""
        is_again = self.asked is not None and self.asked[0] == frontier and now - self.asked[1] < ASK_AGAIN_S
        return self.asks < ASKS_MAX and not is_again


class CopyRequests:
    """The requests of one master in one epoch; agents are roster numbers, several are bitmaps.

    `asked` counts requests, `recovered` the runs that have come and were of use.
    """

    def __init__(self, app_id: Id, epoch: JobEpoch, sender: MessageSender) -> None:
        self.asked = self.recovered = 0
        self._app_id = app_id
        self._epoch = epoch
        self._sender = sender
        self._owners: dict[int, _Owner] = {}
        self._holders: dict[int, Sequence[Peer]] = {}
        self._awaited = 0
        self._awaited_since: float | None = None

    def due(self, lacking: int, at_once: int, frontier: int, now: float) -> int:
        """The agents to ask for now, of all that complete panes lack; `at_once`: those that are not likely to come by
        themselves."""
        for number, owner in self._owners.items():
            if not lacking >> number & 1:
                owner.since = None
        due = 0
        for number in contributors.members(lacking):
            owner = self._owners.setdefault(number, _Owner())
            owner.since = now if owner.since is None else owner.since
            waits = now - owner.since < ASK_AFTER_S and not at_once >> number & 1
            if not waits and owner.may_be_asked_for(frontier, now):
                due |= 1 << number
        return due

    def note_holders(self, owner: int, holders: Sequence[Peer]) -> None:
        """Notes which agents hold an owner's runs, by node id."""
        self._holders[owner] = holders

    def ask(self, owners: Mapping[int, Id], frontier: int, now: float) -> None:
        """Asks for the runs beyond the frontier of these agents, by number with their node ids: those who hold them
        or, where they are not known or have not answered, the whole fleet."""
        of_holder: dict[Peer, set[Id]] = {}
        of_anybody: set[Id] = set()
        for number, node_id in owners.items():
            owner = self._owners[number]
            for peer in self._holders.get(node_id, ()):
                of_holder.setdefault(peer, set()).add(node_id)
            if owner.asks or node_id not in self._holders:
                of_anybody.add(node_id)
            owner.asks, owner.asked = owner.asks + 1, (frontier, now)
        self.asked += bool(owners)
        for peer, ids in of_holder.items():
            for message in self._requests(ids, frontier):
                self._sender.send(peer, message, now)
        for message in self._requests(of_anybody, frontier):
            self._sender.multicast(FLEET_GROUP, message, now)

    def _requests(self, owners: set[Id], frontier: int) -> Iterator[CopyRequest]:
        ids = sorted(owners)
        for first in range(0, len(ids), OWNERS_MAX):
            yield CopyRequest(self._app_id, self._epoch, frontier, ids[first : first + OWNERS_MAX])

    def are_awaited(self, lacking: int, hurried: int, now: float) -> bool:
        """Whether panes wait for copies, of agents that are hurried now or were before, to be called before `due`."""
        for number in contributors.members(hurried & ~self._awaited):
            if number not in self._owners or self._owners[number].asks < ASKS_MAX:
                self._awaited |= 1 << number
                self._awaited_since = now if self._awaited_since is None else self._awaited_since
        return bool(self._awaited & lacking) and now - (self._awaited_since or 0.0) < COPIES_S

    def is_asked(self, numbers: int) -> bool:
        """Whether the copies of any of these agents were asked for."""
        known = (self._owners.get(number) for number in contributors.members(numbers))
        return any(owner is not None and owner.asked is not None for owner in known)

    def came(self, number: int, upto: int) -> None:
        """Notes that a copy of an agent's run has come that is of use."""
        self.recovered += 1
        owner = self._owners.setdefault(number, _Owner())
        owner.asks, owner.upto = 0, max(owner.upto, upto)

    def published(self, upto: int, whole: int) -> int:
        """Notes that panes up to one are published, with these agents in all of them; returns those that have brought
        their parts themselves."""
        self._awaited, self._awaited_since = 0, None
        alive = whole
        for number, owner in list(self._owners.items()):
            if whole >> number & 1:
                if upto <= owner.upto:
                    alive &= ~(1 << number)
                else:
                    del self._owners[number]
        return alive


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


class GivenAnswers:
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
        """Takes an answer; returns all about that agent with the last of them. `awaited`: those who are to answer, and
        whose answers count."""
        asked = self._asked.get(message.owner)
        is_of_use = asked is not None and message.after == asked.after < message.upto <= asked.upto
        if asked is None or not is_of_use or sender not in awaited:
            return []
        asked.answers[sender] = message
        if not asked.are_all(awaited):
            return []
        del self._asked[message.owner]
        self.made += 1
        return list(asked.answers.values())


def runs_of(answers: Iterable[GivenResponse], number: int, local: LocalJob) -> list[Run] | None:
    """The runs of an agent, one for each tree, put together from what hosts have told; None if that is unsound, or was
    too large to be told in one piece."""
    answers = list(answers)
    upto = min(answer.upto for answer in answers)
    found: list[list[Run]] = [[] for _ in range(len(local.nodes))]
    for answer in answers:
        for encoded in answer.runs:
            run = _run_in(encoded, number, local)
            if run is None or (run.after, run.upto) != (answer.after, answer.upto):
                return None
            found[run.tree].append(run.within(run.after, upto))
    if any(len(runs) != len(answers) for runs in found):
        return None
    return [_together(runs, local) for runs in found]


def _run_in(encoded: bytes, number: int, local: LocalJob) -> Run | None:
    """The run in the bytes of a host, as one of this agent; None if no honest host could have made it."""
    try:
        message = CODEC.decode(encoded, RUN_BYTES_MAX)
    except WireError:
        return None
    if not isinstance(message, Snapshot) or message.app_id != local.app_id or message.tree >= len(local.nodes):
        return None
    bit = contributors.to_bytes(1 << number)
    mine = msgspec.structs.replace(message, contributors=bit, partial=bit if message.partial else b"")
    has_more = mine.leaped or mine.losses or mine.patches or mine.before or mine.of_root
    return None if has_more else local.sound_run(mine)


def _together(runs: list[Run], local: LocalJob) -> Run:
    assert local.versions is not None
    state = local.versions.combine([run.state for run in runs], runs[0].upto)
    partial = max(run.partial for run in runs)
    return replace(runs[0], state=state, counted=add_counted(run.counted for run in runs), partial=partial)


def told_apart(run: Run, counted: Mapping[int, object], pane_ms: int, has_waited_for: HasWaitedFor) -> Iterator[Run]:
    """The parts of an agent's run that are in windows: it is `partial` where time has not waited for its logs, and no
    contributor where it has been given nothing either. `counted`: the panes with events."""

    def is_whole(after: int, upto: int) -> bool:
        return has_waited_for(closed_ms(after, pane_ms) + 1, closed_ms(upto, pane_ms) + 1)

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


class LackingParts:
    """The parts that the panes of one master lack. What comes is handed to its `local` job, as detached runs."""

    def __init__(self, state: JobState, local: LocalJob, holdback: HoldbackTimer, sender: MessageSender) -> None:
        self.copies = CopyRequests(state.job.app_id, state.epoch, sender)
        self.given = GivenAnswers(state.job.app_id, state.epoch, sender)
        self._state, self._local, self._holdback = state, local, holdback

    def waits(self, missing: int, stragglers: int, hurried: int, lacking: Span, now: float) -> bool:
        """Asks the fleet for the parts that complete panes lack, of those who are not likely to bring them; whether to
        wait for the answers, if for nothing else. `lacking`: the bounds of these panes."""
        if not self._local.is_copied:
            return False
        waits = self.copies.are_awaited(missing | stragglers, hurried, now)
        frontier, written_off = self._state.frontier, self._holdback.written_off
        wanted = missing & ~written_off | stragglers | (hurried if waits else 0)
        reads_types = self._state.versions.newest.function.plan.reads_types
        at_once = (
            wanted if reads_types else self._holdback.dead | hurried
        )  # who is back does not have what it was given
        due = self.copies.due(wanted, at_once, frontier, now)
        found = ((number, self._state.roster.member(number)) for number in contributors.members(due))
        owners = {number: member.node_id for number, member in found if member is not None}
        self.copies.ask(owners, frontier, now)
        if owners and reads_types:
            self.given.ask(owners.values(), max(frontier, lacking[0]), lacking[1], now)
        return waits

    @property
    def has_late_events(self) -> bool:
        """Whether what an agent's log had while it was dead is late for windows; elements with states take it still."""
        return query.keyed_stream(self._state.versions.newest.function.plan) is not None

    def given_upto(self, wall_ms: int) -> int:
        """The last pane in which an agent that leaves now may have been given events, also before it was started again,
        of which it knows nothing."""
        newest = self._state.versions.newest.function
        is_given = newest.plan.reads_types and newest.pane_ms and not self._state.job.bounded
        return wall_ms // newest.pane_ms * newest.pane_ms if is_given and newest.pane_ms else FIRST_PANE

    def recover(self, owner: Id, runs: Iterable[Snapshot]) -> bool:
        """Takes copies of an agent's runs from one that holds them; False if they were not asked for."""
        numbers = self._state.roster.numbers_of(owner)
        if not self.copies.is_asked(numbers):
            return False
        for run in runs:
            contributor = contributors.from_bytes(run.contributors)
            upto = self._local.take_copy(run) if contributor & numbers else None
            if upto is not None:
                self.copies.came(contributor.bit_length() - 1, upto)
        return True

    def take_given(
        self, message: GivenResponse, sender: Peer, awaited: Iterable[Peer], has_waited_for: HasWaitedFor
    ) -> bool:
        """Takes a host's word on what an agent was given; returns whether that agent's part has come with it.
        `awaited`: those who are to answer."""
        roster = self._state.roster
        answers = self.given.take(message, sender.node_id, [peer.node_id for peer in awaited])
        numbers = roster.numbers_of(message.owner) & roster.expected(message.upto)
        runs = runs_of(answers, numbers.bit_length() - 1, self._local) if answers and numbers else None
        if runs:
            self._take(runs, numbers.bit_length() - 1, has_waited_for)
        return bool(runs)

    def _take(self, runs: Sequence[Run], number: int, has_waited_for: HasWaitedFor) -> None:
        """Takes an agent's runs; what time has passed without its logs is not waited for any longer."""
        upto = runs[0].upto
        pane_ms = self._state.versions.at(upto).function.pane_ms or 1
        parts = [part for run in runs for part in told_apart(run, runs[0].counted, pane_ms, has_waited_for)]
        for part in parts:
            if self._local.nodes.combiner().add_detached(part):
                self.copies.came(number, part.upto)
        if not any(holds_panes(upto - pane_ms, part.upto, pane_ms) for part in parts):
            self._holdback.write_off(1 << number)
            self._state.written_off = self._holdback.written_off
