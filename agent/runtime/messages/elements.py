"""Messages between the agents that host the keyed elements of one job.

Rows and states travel as the bytes of `cbt.encode_frame`. Logical nodes are numbers below 1,024; arrays of them, and
their epochs, are little-endian bytes. Places in lists stand for types and elements, as the job's graph has them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Count, Message, Name, Number, Time
from overlay import Codec, Peer

NODES_MAX = 1024
"""Upper bound on the logical nodes in one message; their number in a job."""
PARTS_MAX = 4096
"""Upper bound on the frames in one record."""
BEHIND_MAX = 64
"""Upper bound on the wrong clocks that all are told of."""
EPOCH_MAX = 1 << 30
"""Upper bound on the epoch of a logical node: one more with each change of its agents. Beyond it is what is forged."""
LETTERS_MAX, HOPS_MAX = 1024, 16
"""Upper bounds on the letters in one parcel, and on the agents that pass one letter on."""
Epoch = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
Epochs = Annotated[list[Epoch], msgspec.Meta(max_length=NODES_MAX)]
LogicalNode = Annotated[int, msgspec.Meta(ge=0, lt=NODES_MAX)]
Nodes = Annotated[list[LogicalNode], msgspec.Meta(max_length=NODES_MAX)]
Packed = Annotated[bytes, msgspec.Meta(max_length=8 * NODES_MAX)]
Peers = Annotated[list[Peer], msgspec.Meta(max_length=4 * NODES_MAX)]
Members = Annotated[list[Number], msgspec.Meta(min_length=1, max_length=8)]
Columns = Annotated[list[tuple[Annotated[str, msgspec.Meta(max_length=255)], Name]], msgspec.Meta(max_length=512)]
Part = tuple[Literal["state", "held", "emitted", "given", "positions"], Number, Name, Columns, bytes]
"""A frame of a record: its kind, the element, the name of a table or type, the columns and the bytes."""


class ElementRows(Message, frozen=True, tag=True):
    """Emitter → host: rows of the type at a `place` in the graph, batch `number` of their session, which had
    `rows_before` rows before."""

    place: Number
    session: Count
    number: Count
    rows_before: Count
    rows: bytes


class ElementCredit(Message, frozen=True, tag=True):
    """Host → emitter: batches before `received` have come, those before `done` are safe; `share` of what may be shed is
    taken. Those from `received` on before `lost_before`, if that is not 0, are to be sent again.

    `event_s`: time that an event of the type takes at the split elements here, 0 where that is not known; `of_host`:
    the emitter's share of these events."""

    place: Number
    session: Count
    received: Count
    done: Count
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    lost_before: Count = 0
    event_s: float = 0.0
    of_host: float = 0.0


class ElementProbe(Message, frozen=True, tag=True):
    """Emitter → host: batches before `number`, with `rows_before` rows, have been sent; an `ElementCredit` is to tell
    how many have come."""

    place: Number
    session: Count
    number: Count
    rows_before: Count


class ElementReset(Message, frozen=True, tag=True):
    """Host → emitter: this session is over, begin another with what is not `done`; `elsewhere` is not hosted here."""

    place: Number
    session: Count
    done: Count
    elsewhere: Nodes = []  # noqa: RUF012


class FindHosts(Message, frozen=True, tag=True):
    """Emitter → root of nodes: answer with their hosts. `denied`: for each the epoch whose host has said that it is
    none, else 0; `known`: the last epoch that the asker knows of."""

    asker: Peer
    nodes: Nodes
    denied: Epochs
    known: Epochs = []  # noqa: RUF012


class NodeHosts(Message, frozen=True, tag=True):
    """Root → emitter: the place of the host among `peers`, and the epoch, of each node."""

    peers: Peers
    hosts: Annotated[list[tuple[LogicalNode, Epoch, Number]], msgspec.Meta(max_length=NODES_MAX)]


class BallotEntry(msgspec.Struct, frozen=True, array_like=True):
    """One logical node in a ballot about its configuration `epoch`. `members`: host first, places among the peers.

    The members are the value of the ballot, a configuration of `value_epoch`; `is_anew`: the state is lost, the host
    begins without; `move_number`: number of the copy that it begins with, 0 for any; `incarnations`: the starts of the
    members that are meant; `is_lost`: there may have been a state, or more of it. In promises `accepted` is the ballot
    in which they were accepted, the copy is that of the sender, and `incarnation` its start, as in `unknown`;
    `has_forgotten`: it knew the node before that start. In `accept`, `accepted` tells that a voter has accepted them.
    """

    node: LogicalNode
    epoch: Epoch
    ballot: Count
    members: Annotated[list[Number], msgspec.Meta(max_length=8)] = []
    accepted: Count = 0
    copy_epoch: Epoch = 0
    copy_number: Count = 0
    is_anew: bool = False
    value_epoch: Epoch = 0
    move_number: Count = 0
    incarnations: Annotated[list[Count], msgspec.Meta(max_length=8)] = []
    incarnation: Count = 0
    is_lost: bool = False
    has_forgotten: bool = False


class NodeBallots(Message, frozen=True, tag=True):
    """A step of agreement on configurations: proposer → members and back, then to all that they concern.

    prepare, promise, accept, accepted: as in Paxos, with one instance for each epoch of each node. chosen: is in force.
    unknown: the sender is no member of the configuration before, or was started again since and has forgotten it.
    """

    phase: Literal["prepare", "promise", "unknown", "accept", "accepted", "chosen"]
    peers: Peers
    entries: Annotated[list[BallotEntry], msgspec.Meta(max_length=NODES_MAX)]


class CommitRecord(Message, frozen=True, tag=True):
    """Host → standby: a part of record `number` of this session. Nodes in `whole` are there with their whole state.

    `nodes`: those it concerns, as UInt16; `epochs`: their epochs, as Int64. `commit`: number of the commit at its host.
    `is_move`: the state goes to where it is to be hosted. `has_more`: the record goes on in the next message, with rows
    that are added to these. `kept_from`: the times from which on events that the job's query is given are to be kept.
    """

    session: Count
    number: Count
    commit: Count
    nodes: Packed
    epochs: Packed
    whole: Packed
    watermarks: Annotated[list[Time], msgspec.Meta(max_length=64)]
    parts: Annotated[list[Part], msgspec.Meta(max_length=PARTS_MAX)]
    safe_commit: Count = 0
    is_move: bool = False
    has_more: bool = False
    kept_from: Annotated[dict[Name, Time], msgspec.Meta(max_length=64)] = msgspec.field(default_factory=dict)


class CommitHeld(Message, frozen=True, tag=True):
    """Standby → host: all records before `upto` of the session are held. `begin`: a state that they change is missing.
    Those from `upto` on before `lost_before`, if that is not 0, are to be sent again."""

    session: Count
    upto: Count
    begin: bool = False
    lost_before: Count = 0


class CommitProbe(Message, frozen=True, tag=True):
    """Host → standby: records before `number` have been sent; a `CommitHeld` is to tell how many are held."""

    session: Count
    number: Count


class MoveNodes(Message, frozen=True, tag=True):
    """Root → host: give these nodes, at these epochs, to another agent."""

    nodes: Nodes
    epochs: Epochs
    to: Peer


class NodesMoved(Message, frozen=True, tag=True):
    """Host → root: the other agent holds the state of these nodes, which are frozen here until a new epoch."""

    nodes: Nodes
    epochs: Epochs
    to: Peer
    copy_number: Count


class ElementLoad(Message, frozen=True, tag=True):
    """Agent → all of the job: the number of nodes hosted here, and the weight of this agent; it may be leaving.
    `incarnation`: which start of it says so. `asks`: to one agent, which is to say the same of itself."""

    peer: Peer
    hosted: Count
    weight: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    is_leaving: bool = False
    incarnation: Count = 0
    asks: bool = False


class ElementTimeReport(Message, frozen=True, tag=True):
    """Agent → master: for each type the lowest time that may still be sent here; `hosted`, `known`: bitmaps of nodes
    that are here, and of those that have been begun anywhere. `activity` rises with all that is done here. `asks`: the
    master is to say that it has it. `wall_ms`: the clock here, 0 for not told; `lead_ms`: what is taken off it, as it
    is known to be wrong."""

    serial: Count
    lowest: Annotated[list[Time], msgspec.Meta(max_length=64)]
    hosted: Annotated[bytes, msgspec.Meta(max_length=NODES_MAX // 8)]
    activity: Count
    is_idle: bool
    seen: Count
    known: Annotated[bytes, msgspec.Meta(max_length=NODES_MAX // 8)] = b""
    asks: bool = False
    wall_ms: Time = 0
    lead_ms: Time = 0


class ElementTimes(Message, frozen=True, tag=True):
    """Master → all of the job: for each type the time before which no more rows of it come. `is_quiet`: nothing is left
    to be done anywhere. `report`: in the answer to an agent, the number of its report that the master has. `wall_ms`:
    the middle one of the agents' clocks, 0 for not told; `behind_ms`: the leads on it of those that are far behind."""

    serial: Count
    times: Annotated[list[Time], msgspec.Meta(max_length=64)]
    is_quiet: bool
    report: Count = 0
    wall_ms: Time = 0
    behind_ms: Annotated[list[Time], msgspec.Meta(max_length=BEHIND_MAX)] = []  # noqa: RUF012


class ElementRoster(Message, frozen=True, tag=True):
    """Master → all of the job: the agents that take part, now and then, and when they change."""

    epoch: JobEpoch
    peers: Annotated[list[Peer], msgspec.Meta(max_length=4096)]


CARRIED: Codec[Message] = Codec(
    ElementRows | ElementProbe | ElementCredit | ElementReset | FindHosts | NodeHosts | NodeBallots
    | CommitRecord | CommitProbe | CommitHeld | MoveNodes | NodesMoved | ElementTimeReport | ElementTimes
)  # fmt: skip
"""Messages that letters carry."""


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """A message of `origin` on its way to an agent, which so many have passed on."""

    to: Peer
    origin: Peer
    hops: Annotated[int, msgspec.Meta(ge=0, le=HOPS_MAX)]
    message: bytes


class ElementParcel(Message, frozen=True, tag=True):
    """Agent → next hop: letters to agents that are nearer to it on the ring, in the order in which they came."""

    letters: Annotated[list[Letter], msgspec.Meta(max_length=LETTERS_MAX)]
