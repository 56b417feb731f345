"""The roots of logical nodes: where each is placed, and the agreement on it by a majority of those who have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.hosting.placement.configurations import Ballot, Configuration, Configurations
from agent.runtime.keyed.hosting.placement.places import Load, Places
from agent.runtime.keyed.logical_nodes import NODES
from agent.runtime.messages.elements import EPOCH_MAX
from overlay import Peer

HOSTING = 2**62
"""Number of the copy of an agent that is the host."""
STAMP_BITS = 40
"""Low bits of the number of a ballot: which start of which agent holds it. Those above are its rounds."""
RETRY_S, REPEATS_MAX = 0.7, 10
"""Time after which a ballot asks those again who have not answered, longer each time; after so many times, or where
somebody else is ahead, another round begins. Answers that take long count all the same: those of agents that are too
busy may take ten seconds."""
SETTLE_S = 0.2
"""Time for which a ballot waits for those that are alive, beyond a majority."""
HEARD_MAX = EPOCH_MAX // 2
"""Epochs in which nobody is believed to have known a node: there would be none left."""
MOVES_MAX = 64
"""Nodes of this root that move at a time."""
MOVE_S = 6.0
REVIEW_S, REVIEW_MAX_S = 1.0, 8.0
"""Time after which placement is reviewed again; twice as long each time, up to the longest, where nothing is found."""
CALM_S, CALM_BALLOTS = 2.0, 4
"""Time after nodes have begun for which none moves to a better place, and how often the time that was taken to agree on
them comes on top: agents have not told of them yet."""
TAKEN_OVER_S = 10.0
"""Time after nodes have been taken over from a dead host for which none moves either: rows come to them again first."""
UNEVEN = 1.5
"""A node moves from a host that has so many times the load of the least loaded one, and four nodes more."""


@dataclass(slots=True)
class _Attempt:
    """A ballot of this agent about the next configuration of a node."""

    epoch: int
    before: Configuration | None
    voters: tuple[Peer, ...]
    asked: frozenset[Peer]
    to: tuple[Peer, int] | None
    since: float
    number: int = 0
    at: float = 0.0
    promises: dict[Peer, Ballot] = field(default_factory=dict)
    asks: Counter[Peer] = field(default_factory=Counter)
    """The promises that are still to come, more than one of an agent that was asked again."""
    unknown: set[Peer] = field(default_factory=set)
    votes: set[Peer] = field(default_factory=set)
    value: Configuration | None = None
    accepted: int = 0
    """The ballot in which a voter has accepted the value before, which may be in force, then; 0 for none."""
    heard: int = 0
    """The epoch in which the node is known to have been, where none of its members is."""
    repeats: int = 0
    repeated_at: float = 0.0
    is_refused: bool = False
    is_given_up: bool = False
    """Whether it goes on without those who will never vote."""

    @property
    def retry_at(self) -> float:
        """The time at which it goes on, where nothing has come of it."""
        return self.repeated_at + RETRY_S * (1 + self.repeats)

    @property
    def mover(self) -> Peer | None:
        """The host without whose vote nothing comes of a move."""
        is_move = self.value is not None and self.value.move_number > 0
        return self.before.host if is_move and self.before is not None else None

    def is_hopeless(self, dead: Container[Peer]) -> bool:
        """Whether another round has to begin."""
        waits = [peer in dead for peer in self.voters if peer not in self.votes] if self.value is not None else []
        is_cut_off = any(waits) and (all(waits) or self.repeats > 0)  # votes of others may be on their way
        return self.is_refused or self.repeats >= REPEATS_MAX or is_cut_off


class _Move(NamedTuple):
    """A node that its host, in an epoch, has been asked to give to another agent, which began with this start."""

    to: Peer
    epoch: int
    since: float
    incarnation: int | None


Say = Callable[[str, Peer, Ballot], None]
"""Sends a ballot in a phase, to this agent too."""


class Roots:
    """The decisions of one agent. `majority`: whether more than half must agree, as where state is guaranteed;
    `waits_for_hosts`: nothing is decided without a host that is alive, as it alone has some of the state; `begun`: the
    number of nodes that are known to have begun."""

    def __init__(
        self,
        me: Peer,
        configurations: Configurations,
        places: Places,
        options: KeyedOptions,
        say: Say,
        *,
        majority: bool,
        waits_for_hosts: bool,
        begun: Callable[[], int] = lambda: 0,
    ) -> None:
        self._begun = begun
        self._me, self._known, self._places, self._options, self._say = me, configurations, places, options, say
        self._majority, self._waits_for_hosts = majority, waits_for_hosts
        start = f"{me.node_id:032x} {options.incarnation}".encode()
        self._stamp = int.from_bytes(blake2b(start, digest_size=STAMP_BITS // 8).digest())
        self._attempts: dict[int, _Attempt] = {}
        self._moves: dict[int, _Move] = {}
        self._turns: dict[Peer, int] = {}
        self._review_at = self._turns_at = self._calm_at = 0.0
        self._pause_s = REVIEW_S
        self._is_uneven = self._is_calm = False
        self.stuck: set[int] = set()
        """Nodes that wait for a majority."""

    # Decisions.

    def want(self, node: int, now: float, heard: int = 0) -> None:
        """Makes sure that a node has a host, once it is known who takes part: agents that know different ones might
        agree on two. `heard`: the epoch in which somebody knows it to have been."""
        if node not in self._attempts and self._known[node] is None and self._places.roster:
            self._begin(node, None, now)
        if (attempt := self._attempts.get(node)) is not None:
            attempt.heard = max(attempt.heard, heard if heard < HEARD_MAX else 0)

    def doubt(self, node: int, now: float, *, is_sure: bool = True) -> None:
        """The host of a node is said to be none, by itself (`is_sure`) or where it takes no rows, as while the node
        moves: agrees on another, if that is so. Such a host moves nothing either, nor one that is off the roster."""
        known = self._known[node]
        if known is None or node in self._attempts:
            return
        if is_sure or node not in self._moves or known.host not in self._places.roster:
            self._moves.pop(node, None)
            self._begin(node, None, now)

    def review_soon(self) -> None:
        """Looks at all nodes at the next tick."""
        self._review_at, self._pause_s = 0.0, REVIEW_S

    def changed(self, now: float) -> None:
        """Something is otherwise than it was at the last review."""
        self._review_at, self._pause_s = min(self._review_at, now + REVIEW_S), REVIEW_S

    def tick(self, now: float) -> list[tuple[int, Configuration, Peer]]:
        """Repeats ballots, reviews placement; returns nodes that are to be moved, and to whom."""
        for node, attempt in list(self._attempts.items()):
            if now >= attempt.retry_at:
                self._go_on(node, attempt, now)
            elif attempt.value is None:
                self._decide(node, attempt, now)
        self._end_moves(now)
        self._places.settle(now)
        if now < self._review_at:
            return []
        if now >= self._turns_at:
            self._turns, self._turns_at = {}, now + REVIEW_S
        found: list[tuple[int, Configuration, Peer]] = []
        self._is_uneven = False
        self._is_calm = now >= self._calm_at and self._places.has_heard_of(self._begun())
        for node, known in self._known.all():
            if node not in self._attempts and node not in self._moves and self._places.is_root(node):
                found.extend(self._review(node, known, now))
        if self._attempts or self._moves or self._is_uneven or not self._is_calm:
            self._pause_s = REVIEW_S
        self._review_at, self._pause_s = now + self._pause_s, min(2 * self._pause_s, REVIEW_MAX_S)
        return found

    def _end_moves(self, now: float) -> None:
        """Ends moves that come to nothing. A host that is off the roster and gives nothing away is dead, though this
        agent, which came later, has not heard of it."""
        for node, move in list(self._moves.items()):
            if not self._goes_on(node, move, now):
                del self._moves[node]
                known = self._known[node]
                if known is not None and known.epoch == move.epoch and known.host not in self._places.roster:
                    self._begin(node, None, now)

    def _goes_on(self, node: int, move: _Move, now: float) -> bool:
        """Whether a move may still come to something: the node is where it was, both agents are alive and remember it,
        and it is not long ago."""
        known, dead = self._known[node], self._places.dead
        is_where_it_was = known is not None and known.epoch == move.epoch and known.host not in dead
        remembers = move.incarnation in (None, self._places.incarnations.get(move.to))
        return is_where_it_was and remembers and move.to not in dead and now < move.since + MOVE_S

    def _review(self, node: int, known: Configuration, now: float) -> Iterable[tuple[int, Configuration, Peer]]:
        places, host = self._places, known.host
        dead = places.dead
        if host in dead or not all(places.is_in(peer, known) for peer in known.standbys):
            self._begin(node, None, now)  # before it moves: until it has, there would be fewer copies
        elif len(self._moves) < MOVES_MAX and (to := self._better(node, known, now)) is not None:
            self._moves[node] = _Move(to, known.epoch, now, places.incarnations.get(to))
            places.place(to, 1, now)
            places.place(host, -1, now)
            yield node, known, to
        elif set(known.standbys) != set(places.standbys(node, host)) and not (self._moves and places.is_emptying):
            self._begin(node, None, now)  # what moves stands still until it has

    def _better(self, node: int, known: Configuration, now: float) -> Peer | None:
        """The agent that should host a node instead of its host."""
        places, host = self._places, known.host
        best, load = places.host(node), places.load(host)
        if best == host or not places.load(best).takes:
            return None
        if not load.takes:
            return self._heir(node, known, best)
        if self._options.bounded or not self._is_calm:
            return None  # it ends before a better place pays, or is not the time for it
        if host not in places.candidates(node):
            return best
        is_uneven = self._has_more(load, places.load(best))
        self._is_uneven |= is_uneven
        return best if is_uneven and self._is_its_turn(best, host, now) else None

    @staticmethod
    def _has_more(load: Load, other: Load) -> bool:
        return load.hosted / load.weight > UNEVEN * (other.hosted + 4) / other.weight

    def _heir(self, node: int, known: Configuration, best: Peer) -> Peer:
        """The agent that should host a node of one that leaves: a standby, which has most of the state, if it has not
        much more than others."""
        places = self._places
        if not self._majority or self._waits_for_hosts:
            return best
        near = [peer for peer in places.standbys(node, known.host) if peer in known.standbys]
        takers = [peer for peer in near if places.load(peer).takes and peer in places.incarnations]
        return next((peer for peer in takers if not self._has_more(places.load(peer), places.load(best))), best)

    def _is_its_turn(self, to: Peer, host: Peer, now: float) -> bool:
        """Whether this root may now move one more node to an agent, to even out loads."""
        left = self._turns.get(to)
        if left is None:
            left = self._places.turns(to, host, now)
        self._turns[to] = left - 1
        return left > 0

    def moved(self, node: int, epoch: int, to: Peer, copy_number: int, now: float) -> None:
        """The state of a node has come where it is to be hosted."""
        move = self._moves.get(node)
        is_asked = move is not None and move.to == to and move.epoch == epoch
        if is_asked and self._known.epoch(node) == epoch and node not in self._attempts:
            self._begin(node, (to, copy_number), now)

    def is_unsettled(self, node: int) -> bool:
        """Whether it is being decided where a node is."""
        return node in self._attempts or node in self._moves

    # Ballots.

    def _begin(self, node: int, to: tuple[Peer, int] | None, now: float) -> None:
        before = self._known[node]
        places, standbys = self._places, self._options.standbys
        voters = places.voters(node) if before is None else before.members
        others = [*places.nearest(node, standbys + 1 if before else standbys + 4), *(to[:1] if to else ())]
        asked = frozenset([*voters, *others, *(() if before else places.candidates(node))])
        attempt = self._attempts[node] = _Attempt((before.epoch if before else 0) + 1, before, voters, asked, to, now)
        self._ask(node, attempt, now)

    def _ask(self, node: int, attempt: _Attempt, now: float) -> None:
        if attempt.to is not None and attempt.number:
            attempt.to = None  # a move that did not go through: some may have voted for it, and its host takes no rows
            self._moves.pop(node, None)
        round_ = (attempt.number >> STAMP_BITS) + 1
        attempt.number, attempt.at = round_ << STAMP_BITS | self._stamp, now
        attempt.promises, attempt.unknown, attempt.votes, attempt.value, attempt.accepted = {}, set(), set(), None, 0
        attempt.repeats, attempt.repeated_at = 0, now
        attempt.is_refused = attempt.is_given_up = False
        attempt.asks = Counter(attempt.asked)
        for peer in sorted(attempt.asked, key=lambda peer: peer.node_id):
            self._say("prepare", peer, Ballot(node, attempt.epoch, attempt.number, attempt.before))

    def _go_on(self, node: int, attempt: _Attempt, now: float) -> None:
        """Asks those again who have not answered, or begins another round."""
        if attempt.is_hopeless(self._places.dead):
            self._ask(node, attempt, now)
            return
        attempt.repeats, attempt.repeated_at = attempt.repeats + 1, now
        if attempt.value is None:
            answered, value = {*attempt.promises, *attempt.unknown}, attempt.before
        else:
            answered, value = attempt.votes, attempt.value
        phase, asked = ("prepare", attempt.asked) if attempt.value is None else ("accept", attempt.voters)
        for peer in sorted(set(asked) - answered, key=lambda peer: peer.node_id):
            attempt.asks[peer] += phase == "prepare"
            self._say(phase, peer, Ballot(node, attempt.epoch, attempt.number, value, attempt.accepted))

    def heard(self, phase: str, ballot: Ballot, sender: Peer, now: float) -> None:
        """Takes the answer of a voter."""
        if ballot.incarnation:
            self._places.began(sender, ballot.incarnation)
        attempt = self._attempts.get(ballot.node)
        if attempt is None or ballot.epoch != attempt.epoch:
            return
        if phase == "unknown":
            attempt.unknown.add(sender)
            attempt.is_refused |= attempt.to is not None and sender == attempt.mover  # it has forgotten what it gave
            attempt.is_refused |= attempt.value is not None and self._is_out_of_reach(attempt)
        elif phase == "promise":
            if ballot.number > attempt.number:
                attempt.number = ballot.number >> STAMP_BITS << STAMP_BITS  # somebody is ahead: again later, above
                attempt.is_refused = True
                return
            if ballot.number < attempt.number:
                return  # what it has voted for since is not in it
            attempt.promises[sender] = ballot
            attempt.asks[sender] -= 1
            # One more than it was asked for answers what was to be voted on.
            attempt.is_refused |= attempt.value is not None and attempt.asks[sender] < 0
        elif phase == "accepted" and ballot.number == attempt.number and sender in attempt.voters:
            attempt.votes.add(sender)
            self._count(ballot.node, attempt)
            return
        if attempt.value is None:
            self._decide(ballot.node, attempt, now)

    def _decide(self, node: int, attempt: _Attempt, now: float) -> None:
        dead = self._places.dead
        if attempt.before is None and self._was_before(node, attempt, now):
            return
        promised = [peer for peer in attempt.voters if peer in attempt.promises]
        heard = {*attempt.promises, *attempt.unknown}
        waits = [peer for peer in attempt.asked if peer not in dead and peer not in heard]
        if waits and now < attempt.at + SETTLE_S:
            return
        is_host_awaited = attempt.before is not None and attempt.before.host in waits
        is_host_needed = self._waits_for_hosts or attempt.to is not None
        if is_host_awaited and is_host_needed and now < attempt.since + self._options.lost_s:
            return
        is_enough = len(promised) >= self._needed(attempt) and not self._lacks_state(attempt)
        attempt.is_given_up = not is_enough and self._is_given_up(attempt, now)
        if not is_enough and not attempt.is_given_up:
            if now - attempt.since > 1.0:
                self.stuck.add(node)
            return
        attempt.value = self._value(node, attempt, now)
        if attempt.value is None:
            self._attempts.pop(node)
            self._moves.pop(node, None)
            return
        for peer in attempt.voters:
            self._say("accept", peer, Ballot(node, attempt.epoch, attempt.number, attempt.value, attempt.accepted))
        if not promised:
            self._count(node, attempt)

    def _lacks_state(self, attempt: _Attempt) -> bool:
        """Whether none of those who have promised has the state, and one that has not answered may: its host has got
        it by a move, say, and is cut off before its standbys have it."""
        before, answered = attempt.before, {*attempt.promises, *attempt.unknown}
        if not self._majority or before is None or before.is_anew or attempt.to is not None:
            return False
        if answered.issuperset(attempt.voters):
            return False
        promises = [attempt.promises[peer] for peer in attempt.voters if peer in attempt.promises]
        return not any(one.copy[0] or one.value is not None for one in promises)

    def _was_before(self, node: int, attempt: _Attempt, now: float) -> bool:
        """Whether a node of which nothing is known here was somewhere before, and may come to light again. Else it is
        in the epoch after that, and what it had is lost: so at once where all agents of the job have forgotten it."""
        unknown = (one.copy[1] for one in attempt.promises.values() if not one.copy[0])
        attempt.heard = max(attempt.heard, *(epoch for epoch in unknown if epoch < HEARD_MAX), 0)
        forgotten = {peer for peer, one in attempt.promises.items() if one.has_forgotten}
        if attempt.heard >= attempt.epoch:
            attempt.epoch = attempt.heard + 1
            self._ask(node, attempt, now)
            return True
        may_come_back = self._majority and not forgotten.issuperset(self._places.roster)
        is_early = may_come_back and attempt.heard > 0 and now - attempt.since < self._options.lost_s
        if is_early:
            self.stuck.add(node)
        return is_early

    def _needed(self, attempt: _Attempt) -> int:
        if self._majority:
            return len(attempt.voters) // 2 + 1
        gone = self._places.dead | attempt.unknown
        alive = sum(1 for peer in attempt.voters if peer not in gone)
        return min(1, alive) if attempt.before is not None else alive // 2 + min(1, alive)

    def _is_given_up(self, attempt: _Attempt, now: float) -> bool:
        """Whether those who are missing are gone for good."""
        if now - attempt.since < self._options.lost_s:
            return False
        return all(peer in attempt.promises or self._is_gone(peer, attempt) for peer in attempt.voters)

    def _is_out_of_reach(self, attempt: _Attempt) -> bool:
        """Whether too many have forgotten what they agreed to for enough votes to come."""
        left = sum(1 for peer in attempt.voters if peer not in attempt.unknown)
        return not attempt.is_given_up and left < self._needed(attempt)

    def _is_gone(self, peer: Peer, attempt: _Attempt) -> bool:
        """Whether an agent will never vote: it is dead, or was started again and has forgotten what it agreed to."""
        return peer in attempt.unknown or self._places.is_gone(peer)

    def _value(self, node: int, attempt: _Attempt, now: float) -> Configuration | None:
        """The configuration to vote on: one that may have been agreed on already, else the best by what is known."""
        promises, places = attempt.promises, self._places
        accepted = max(
            (one for one in promises.values() if self._may_be_chosen(one, attempt)), key=_accepted, default=None
        )
        attempt.accepted = 0 if accepted is None else accepted.accepted
        if accepted is not None:
            return accepted.value
        before = attempt.before
        if before is None:
            host, is_anew = places.first_host(node), True
        elif attempt.to is not None:
            if (
                before.host not in promises
                or promises[before.host].copy[0] != before.epoch
                or attempt.to[0] in places.dead
            ):
                return None
            host, is_anew = attempt.to[0], False
        else:
            copies = {
                peer: promises[peer].copy
                for peer in attempt.voters
                if peer in promises
                and peer not in places.dead
                and promises[peer].copy[0]
                and (self._majority or peer == before.host)
            }
            preferred = [self._me, *places.nearest(node, 8)]
            best = max(copies, key=lambda peer: (copies[peer], -_place(peer, preferred)), default=None)
            host, is_anew = (places.host(node), True) if best is None else (best, False)
        standbys = self._standbys(node, host, attempt)
        if before is None or is_anew:
            places.place(host, 1, now)
            self._calm_at = max(self._calm_at, now + CALM_S + CALM_BALLOTS * (now - attempt.since))
        elif host != before.host and not attempt.to:
            self._calm_at = now + TAKEN_OVER_S
        was_begun = before is None or (before.is_anew and self._has_majority(attempt))
        is_lost = is_anew and (attempt.heard > 0 or not was_begun)
        if attempt.is_given_up and before is not None and host in promises and not is_anew:
            is_lost = promises[host].copy[0] < before.epoch  # those who are gone may have held more
        members = (host, *standbys)
        starts = tuple(self._incarnation(peer, before) for peer in members)
        move_number = attempt.to[1] if attempt.to else 0
        return Configuration(attempt.epoch, members, is_anew, move_number, starts, is_lost)

    def _incarnation(self, peer: Peer, before: Configuration | None) -> int:
        """The start of an agent, as far as it is known; one that it is not makes the agent say so."""
        known = dict(zip(before.members, before.incarnations, strict=False)) if before is not None else {}
        return self._places.incarnations.get(peer, known.get(peer, 0))

    def _has_majority(self, attempt: _Attempt) -> bool:
        """Whether so many have promised that one of them would hold what has been committed since the epoch began."""
        return self._majority and 2 * sum(peer in attempt.promises for peer in attempt.voters) > len(attempt.voters)

    def _standbys(self, node: int, host: Peer, attempt: _Attempt) -> tuple[Peer, ...]:
        """The agents that are to stand by for a node. While one of them lacks its state, those who have it stay, too:
        there are no fewer copies on the way from one to the other."""
        chosen = self._places.standbys(node, host)
        before = attempt.before.standbys if attempt.before is not None and self._majority else ()
        epochs = {
            peer: attempt.promises[peer].copy[0]
            for peer in before
            if peer in attempt.promises and peer != host and peer not in self._places.dead
        }
        last = max(epochs.values(), default=0)
        holding = [peer for peer, epoch in epochs.items() if epoch == last > 0]
        if set(holding).issuperset(chosen):
            return chosen
        return (*chosen, *[peer for peer in holding if peer not in chosen][: self._options.standbys])

    @staticmethod
    def _may_be_chosen(promise: Ballot, attempt: _Attempt) -> bool:
        """Whether the value that a voter has accepted may have been agreed on: a move is only with the vote of the host
        before, which takes rows no more."""
        value, before = promise.value, attempt.before
        if value is None or before is None or not value.move_number:
            return value is not None
        host = attempt.promises.get(before.host)
        if host is not None and host.value != value:
            return False
        copies = (one.copy for peer, one in attempt.promises.items() if peer != before.host)
        return not any(epoch == before.epoch and number > value.move_number for epoch, number in copies)

    def _count(self, node: int, attempt: _Attempt) -> None:
        if attempt.value is None:
            return
        gone = sum(1 for peer in attempt.voters if self._is_gone(peer, attempt)) if attempt.is_given_up else 0
        needed = max(0, self._needed(attempt) - gone)
        is_mover_awaited = attempt.to is not None and attempt.mover is not None and attempt.mover not in attempt.votes
        if len(attempt.votes) < needed or is_mover_awaited:
            return
        concerned = {*attempt.value.members, *attempt.voters, self._me}
        self.ended(node)
        for peer in sorted(concerned, key=lambda peer: peer.node_id):
            self._say("chosen", peer, Ballot(node, attempt.epoch, 0, attempt.value))

    def ended(self, node: int) -> None:
        """A configuration is in force: what was to come of it is over."""
        self._attempts.pop(node, None)
        self._moves.pop(node, None)
        self.stuck.discard(node)

    def settled(self, node: int) -> None:
        """A configuration of a node has been heard of: a ballot about it or one before is over."""
        attempt = self._attempts.get(node)
        if attempt is not None and (attempt.before is None or attempt.epoch <= self._known.epoch(node)):
            self.ended(node)
        elif attempt is None and (move := self._moves.get(node)) is not None and move.epoch < self._known.epoch(node):
            del self._moves[node]  # it is elsewhere; what is told again of today's host ends no move

    def next_timer(self) -> float:
        """The time of the next thing to be done."""
        due = [one.at + SETTLE_S if one.value is None else one.retry_at for one in self._attempts.values()]
        return min([self._review_at, *due])


def _accepted(ballot: Ballot) -> int:
    return ballot.accepted


def _place(peer: Peer, preferred: list[Peer]) -> int:
    return preferred.index(peer) if peer in preferred else NODES
