"""The configuration of each logical node, as this agent knows it, and its votes on the next ones (Paxos, by node and
epoch)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from agent.runtime.keyed.hosting.options import Bools
from agent.runtime.keyed.logical_nodes import NODES
from overlay import Peer

AGAIN, APART_S = 4, 0.25
"""Times that a host is told again, so far apart, until it is believed."""
SINCE_S, FORGOTTEN_S = 3.0, 10.0
"""Least time between the first and the last of them, and the longest between two."""


class Configuration(NamedTuple):
    """The agents that have a logical node in an epoch: its host, then standbys. `is_anew`: without the state it had;
    `move_number`: number of the copy that its host was given by the one before, 0 for none. `incarnations`: which start
    of each member is meant; one that was started again has forgotten what it held and agreed to, and is none any more.
    `is_lost`: there may have been a state, or more of it."""

    epoch: int
    members: tuple[Peer, ...]
    is_anew: bool = False
    move_number: int = 0
    incarnations: tuple[int, ...] = ()
    is_lost: bool = False

    @property
    def host(self) -> Peer:
        """The agent where the node's elements are."""
        return self.members[0]

    @property
    def standbys(self) -> tuple[Peer, ...]:
        """The agents that hold its commits."""
        return self.members[1:]

    def has(self, peer: Peer, incarnation: int) -> bool:
        """Whether an agent is a member, and has not been started again since."""
        return (peer, incarnation) in zip(self.members, self.incarnations, strict=False)


class Ballot(NamedTuple):
    """One node in one step of a ballot. `value`: the configuration that it is about, None for none; `accepted`: the
    ballot in which that was accepted; `copy`: epoch and number of the sender's copy of the state; `incarnation`: its
    start; `has_forgotten`: it knew the node before that start, and knows it no more."""

    node: int
    epoch: int
    number: int
    value: Configuration | None = None
    accepted: int = 0
    copy: tuple[int, int] = (0, 0)
    incarnation: int = 0
    has_forgotten: bool = False


class Vote(NamedTuple):
    """The promise of this agent about an epoch of a node, and the value it has accepted."""

    epoch: int
    promised: int
    accepted: int = 0
    value: Configuration | None = None


class Configurations:
    """All nodes' configurations, as one start of an agent knows them. `on_change` learns of each new one, with the one
    before."""

    def __init__(
        self, me: Peer, incarnation: int, on_change: Callable[[int, Configuration | None, Configuration], None]
    ) -> None:
        self._me, self.incarnation = me, incarnation
        self._known: list[Configuration | None] = [None] * NODES
        self.is_known: Bools = np.zeros(NODES, bool)
        self._votes: dict[int, Vote] = {}
        self._on_change = on_change

    def __getitem__(self, node: int) -> Configuration | None:
        return self._known[node]

    def epoch(self, node: int) -> int:
        """The epoch of a node, 0 before the first."""
        known = self._known[node]
        return 0 if known is None else known.epoch

    def is_in(self, value: Configuration) -> bool:
        """Whether this agent is a member, and remembers it."""
        return value.has(self._me, self.incarnation)

    def is_host_of(self, value: Configuration) -> bool:
        """Whether this agent is the host, and remembers it."""
        return value.host == self._me and self.is_in(value)

    def has_voted(self, node: int) -> bool:
        """Whether this agent has voted for a configuration that is not known to be in force."""
        vote = self._votes.get(node)
        return vote is not None and vote.accepted > 0

    def voted(self) -> set[tuple[int, int]]:
        """The nodes, with their epochs, for whose next configuration this agent has voted."""
        return {(node, self.epoch(node)) for node in self._votes if self.has_voted(node)}

    def fence(self, node: int, host: Peer) -> int:
        """The epoch for which this agent has voted, so that of a host in one before nothing may be held until it is
        known what is in force; 0 where that host stays in it."""
        vote = self._votes.get(node)
        is_other = vote is not None and vote.value is not None and vote.value.host != host
        return vote.epoch if vote is not None and is_other and vote.accepted else 0

    def is_host(self, node: int, host: Peer, epoch: int) -> bool:
        """Whether what a host has committed in an epoch counts: it is known to be the host, and nobody else has been
        since."""
        known = self._known[node]
        return known is not None and known.epoch >= epoch and known.host == host

    def learn(self, node: int, value: Configuration | None) -> bool:
        """Takes a configuration that is in force; False if a newer one is known. Of two in one epoch, which only begins
        where a majority was given up, the same one wins everywhere."""
        before = self._known[node]
        if value is None or not value.members or (before is not None and _rank(before) >= _rank(value)):
            return False
        self._known[node] = value
        self.is_known[node] = True
        vote = self._votes.get(node)
        if vote is not None and vote.epoch <= value.epoch:
            del self._votes[node]
        self._on_change(node, before, value)
        return True

    def prepare(self, asked: Ballot, copy: tuple[int, int]) -> tuple[str, Ballot]:
        """A proposer asks for a promise; its value is the configuration before, which may be news here."""
        node, epoch = asked.node, asked.epoch
        if asked.value is not None and asked.value.epoch < epoch:
            self.learn(node, asked.value)
        if (known := self._known[node]) is not None and (known.epoch >= epoch or asked.value is None):
            return "chosen", Ballot(node, known.epoch, 0, known)
        if not self._may_vote(node, epoch, is_first=asked.value is None):
            return "unknown", asked._replace(value=None, incarnation=self.incarnation)
        vote = self._vote(node, epoch)
        if asked.number > vote.promised:
            vote = self._votes[node] = vote._replace(promised=asked.number)
        return "promise", Ballot(node, epoch, vote.promised, vote.value, vote.accepted, copy, self.incarnation)

    def accept(self, asked: Ballot, *, is_late: bool) -> tuple[str, Ballot]:
        """A proposer asks for a vote on a configuration. `is_late`: something that it leaves out has been committed."""
        node, epoch = asked.node, asked.epoch
        if (known := self._known[node]) is not None and known.epoch >= epoch:
            return "chosen", Ballot(node, known.epoch, 0, known)
        is_first = epoch == 1 or (asked.value is not None and asked.value.is_lost)
        if not self._may_vote(node, epoch, is_first=is_first):
            return "unknown", asked._replace(value=None, incarnation=self.incarnation)
        vote = self._vote(node, epoch)
        if asked.number < vote.promised or is_late:
            answer = Ballot(node, epoch, vote.promised, vote.value, vote.accepted, incarnation=self.incarnation)
            return "promise", answer
        self._votes[node] = Vote(epoch, asked.number, asked.number, asked.value)
        return "accepted", asked

    def _may_vote(self, node: int, epoch: int, *, is_first: bool) -> bool:
        """Whether this agent has a say in an epoch: it is a member of the one before, and remembers what it has agreed
        to. In the first one of which anything is known, all have."""
        known = self._known[node]
        return is_first if known is None else known.epoch == epoch - 1 and self.is_in(known)

    def _vote(self, node: int, epoch: int) -> Vote:
        vote = self._votes.get(node)
        return vote if vote is not None and vote.epoch >= epoch else Vote(epoch, 0)

    def all(self) -> list[tuple[int, Configuration]]:
        """Every known configuration."""
        return [(node, known) for node, known in enumerate(self._known) if known is not None]


def _rank(configuration: Configuration) -> tuple[int, list[int]]:
    return configuration.epoch, [peer.node_id for peer in configuration.members]


class OlderNews:
    """Counts how often the host of a node is told with an older epoch than that which is known. Roots tell it when they
    are asked, so one that is told for seconds is the latest that there is."""

    def __init__(self) -> None:
        self._heard: dict[int, tuple[float, float, int]] = {}

    def believed(self, nodes: Iterable[int], now: float) -> list[int]:
        """Takes such news; returns the nodes whose host is the one that is told after all."""
        return [node for node in nodes if self._is_believed(node, now)]

    def _is_believed(self, node: int, now: float) -> bool:
        since, at, times = self._heard.get(node, (now, -FORGOTTEN_S, 0))
        if now > at + FORGOTTEN_S:
            since, times = now, 0
        if now >= at + APART_S:
            at, times = now, times + 1
        if times >= AGAIN and now >= since + SINCE_S:
            del self._heard[node]
            return True
        self._heard[node] = since, at, times
        return False
