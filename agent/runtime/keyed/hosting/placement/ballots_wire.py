"""Ballots as messages: many nodes in one, with each peer once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from agent.runtime.keyed.hosting.placement.configurations import Ballot, Configuration
from agent.runtime.messages.elements import BallotEntry, NodeBallots
from overlay import Id, Peer

ENTRIES_MAX = 512
Phase = Literal["prepare", "promise", "unknown", "accept", "accepted", "chosen"]


def messages_of(app_id: Id, phase: Phase, ballots: Sequence[Ballot]) -> Iterator[NodeBallots]:
    """The messages that carry ballots."""
    for start in range(0, len(ballots), ENTRIES_MAX):
        peers: dict[Peer, int] = {}
        entries = [_entry(one, peers) for one in ballots[start : start + ENTRIES_MAX]]
        yield NodeBallots(app_id, phase, list(peers), entries)


def ballots_of(message: NodeBallots) -> list[Ballot]:
    """The ballots in a message; those that name peers that are not there are left out."""
    return [one for entry in message.entries if (one := _ballot(entry, message.peers)) is not None]


def _entry(ballot: Ballot, peers: dict[Peer, int]) -> BallotEntry:
    value = ballot.value
    members = [peers.setdefault(peer, len(peers)) for peer in value.members] if value is not None else []
    entry = BallotEntry(ballot.node, ballot.epoch, ballot.number, members, ballot.accepted, *ballot.copy)
    if ballot.incarnation:
        start = ballot.incarnation
        entry = msgspec.structs.replace(entry, incarnation=start, has_forgotten=ballot.has_forgotten)
    if value is None:
        return entry
    return msgspec.structs.replace(
        entry,
        is_anew=value.is_anew,
        value_epoch=value.epoch,
        move_number=value.move_number,
        incarnations=list(value.incarnations),
        is_lost=value.is_lost,
    )


def _ballot(entry: BallotEntry, peers: Sequence[Peer]) -> Ballot | None:
    if any(place >= len(peers) for place in entry.members):
        return None
    members = tuple(peers[place] for place in entry.members)
    value = Configuration(
        entry.value_epoch, members, entry.is_anew, entry.move_number, tuple(entry.incarnations), entry.is_lost
    )
    about = entry.accepted, (entry.copy_epoch, entry.copy_number), entry.incarnation, entry.has_forgotten
    return Ballot(entry.node, entry.epoch, entry.ballot, value if members else None, *about)
