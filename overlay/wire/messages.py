"""Defines the messages nodes exchange. Every list has a bound, which limits the size of a decoded message.

A message never names its sender: the channel authenticates it.
"""

from typing import Annotated

import msgspec

from overlay.wire.epoch import TreeEpoch
from overlay.wire.ids import DIGIT_VALUES, DIGITS, ID_BYTES, Id
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    Entries,
    Frontier,
    GroupRefusal,
    MulticastEntry,
    RootState,
    TreePosition,
    TreeStatus,
    UpwardEdge,
    Wanted,
)

LEAF_SET_SIZE = 16
NEIGHBOURHOOD_SIZE = 16
HOPS_MAX = 64
GROUPS_PER_MESSAGE_MAX = 256
GROUPS_PER_DIGEST_MAX = 1024
EDGE_BUCKETS = 16
IDS_PER_MESSAGE_MAX = 1 << 16

Hops = Annotated[int, msgspec.Meta(ge=0, le=HOPS_MAX)]
MessageId = Annotated[int, msgspec.Meta(ge=0)]
Incarnation = Annotated[int, msgspec.Meta(ge=0)]
Edges = Annotated[int, msgspec.Meta(ge=0)]
Rows = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=DIGITS * (DIGIT_VALUES - 1))]
Row = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=DIGIT_VALUES)]
Leaves = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=LEAF_SET_SIZE)]
Neighbours = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=NEIGHBOURHOOD_SIZE)]
Token = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Groups = Annotated[tuple[Id, ...], msgspec.Meta(max_length=GROUPS_PER_DIGEST_MAX)]
Digest = Annotated[int, msgspec.Meta(ge=0)]
PackedIds = Annotated[bytes, msgspec.Meta(max_length=ID_BYTES * IDS_PER_MESSAGE_MAX)]
TreeStatuses = Annotated[tuple[TreeStatus, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]
TreePositions = Annotated[tuple[TreePosition, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]
Refusals = Annotated[tuple[GroupRefusal, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]
UpwardEdges = Annotated[tuple[UpwardEdge, ...], msgspec.Meta(max_length=GROUPS_PER_DIGEST_MAX)]
Buckets = Annotated[tuple[Digest, ...], msgspec.Meta(min_length=EDGE_BUCKETS, max_length=EDGE_BUCKETS)]
RootStates = Annotated[tuple[RootState, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]


class _Tagged(msgspec.Struct, array_like=True, frozen=True):
    """Base of all messages: encoded as an array that starts with the tag. Fields of a later release come last, and
    are ignored."""


class JoinRequest(_Tagged, frozen=True, tag=1):
    """A request to join, routed to the joiner's own id; every hop adds routing rows that the joiner lacks."""

    joiner: Peer
    hops: Hops
    next_row: Annotated[int, msgspec.Meta(ge=0, le=DIGITS)]
    rows: Rows
    neighbours: Neighbours
    message_id: MessageId


class JoinReply(_Tagged, frozen=True, tag=2):
    """The last hop's answer to the joiner: rows and neighbours gathered on the way, and the last hop's leaf set."""

    rows: Rows
    neighbours: Neighbours
    leaves: Leaves


class LeafSetProbe(_Tagged, frozen=True, tag=3):
    """The sender's leaf set; asks the receiver to consider the sender for its own leaf set and to answer."""

    leaves: Leaves


class LeafSetAnswer(_Tagged, frozen=True, tag=4):
    """The answer to a probe: the receiver's leaf set after it has considered the prober."""

    leaves: Leaves


class Announcement(_Tagged, frozen=True, tag=5):
    """Notice that the sender has become active, for the tables of the peers it knows."""


class RowRequest(_Tagged, frozen=True, tag=6):
    """A request for one row of the receiver's routing table."""

    row: Annotated[int, msgspec.Meta(ge=0, lt=DIGITS)]


class RowAnswer(_Tagged, frozen=True, tag=7):
    """Peers of the requested row."""

    peers: Row


class Route(_Tagged, frozen=True, tag=8):
    """A payload being routed to the node closest to a key; `wants_response` makes it a request."""

    message_id: MessageId
    key: Id
    origin: Peer
    hops: Hops
    payload: bytes
    wants_response: bool


class Direct(_Tagged, frozen=True, tag=9):
    """A payload for the receiver itself."""

    payload: bytes


class Publish(_Tagged, frozen=True, tag=10):
    """A multicast being routed to the root of its group."""

    message_id: MessageId
    group: Id
    hops: Hops
    wanted: Wanted | None
    payload: bytes


class Disseminate(_Tagged, frozen=True, tag=11):
    """A multicast on its way down the tree from the current root; `hops` is the depth of the receiver."""

    group: Id
    hops: Hops
    entry: MulticastEntry


class GroupJoin(_Tagged, frozen=True, tag=12):
    """A request that the receiver become the sender's parent in the trees of these groups."""

    statuses: TreeStatuses


class GroupJoined(_Tagged, frozen=True, tag=13):
    """A parent's acceptance of a child, with the parent's position in each tree; sent again when the position
    changes.
    """

    positions: TreePositions


class GroupRefused(_Tagged, frozen=True, tag=14):
    """A refusal of a child (it is on the sender's path, or the sender is full), with peers to ask instead."""

    refusals: Refusals


class GroupLeave(_Tagged, frozen=True, tag=15):
    """A child's notice that it is not, or no longer, the receiver's child in these trees."""

    groups: Annotated[tuple[Id, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]


class GroupDigest(_Tagged, frozen=True, tag=16):
    """The sender's view of the tree edges it shares with the receiver, to repair differences left by lost messages.

    `buckets`: bit set of the buckets of groups covered. `children`: groups in which the receiver is a child of the
    sender. `parents`: groups in which the receiver is the sender's parent. `asks`: whether the receiver is to answer
    with its view.
    """

    buckets: Annotated[int, msgspec.Meta(ge=0, lt=1 << EDGE_BUCKETS)]
    children: Groups
    parents: UpwardEdges
    asks: bool


class Ping(_Tagged, frozen=True, tag=17):
    """A member's heartbeat. A repeated token means that the previous ping is still unanswered.

    `edges`: digest of the tree edges that the sender believes it shares with the receiver.
    """

    token: Token
    incarnation: Incarnation
    edges: Edges


class Pong(_Tagged, frozen=True, tag=18):
    """The answer to a ping, with its token."""

    token: Token
    incarnation: Incarnation
    edges: Edges


class Leaving(_Tagged, frozen=True, tag=19):
    """Notice that the sender is leaving the overlay now."""


class Absent(_Tagged, frozen=True, tag=20):
    """Notice that the sender is not a member (or not yet), although the receiver takes it for one."""


class Echo(_Tagged, frozen=True, tag=40):
    """A round-trip measurement, to be returned at once."""

    token: Token


class EchoReply(_Tagged, frozen=True, tag=41):
    """The answer to an echo."""

    token: Token


class Response(_Tagged, frozen=True, tag=42):
    """The answer to a request; the ticket is the request's message id."""

    ticket: MessageId
    payload: bytes


class PingRequest(_Tagged, frozen=True, tag=21):
    """A request to ping the target, which does not answer the sender, and to report whether it answers."""

    target: Peer
    token: Token


class RelayedPing(_Tagged, frozen=True, tag=22):
    """An indirect ping sent on behalf of a prober whose direct link to the target failed."""

    token: Token
    origin: Peer


class PingReport(_Tagged, frozen=True, tag=23):
    """A helper's report to the prober: whether the target has answered so far."""

    target: Id
    token: Token
    reached: bool


class Suspect(_Tagged, frozen=True, tag=24):
    """Notice that the sender suspects a peer, in the given incarnation, of having failed. Sent to the suspect and to
    the peers that watch it.
    """

    peer: Id
    incarnation: Incarnation


class Refute(_Tagged, frozen=True, tag=25):
    """A suspect's proof of life: its new incarnation."""

    incarnation: Incarnation


class HopAck(_Tagged, frozen=True, tag=26):
    """Acknowledgement that the sender has taken over a routed message from the receiver."""

    message_id: MessageId


class EdgeBuckets(_Tagged, frozen=True, tag=28):
    """The digest of shared edges in parts, sent when the pings' digests keep differing; the receiver answers with the
    edges of the parts that differ.
    """

    digests: Buckets


class Pull(_Tagged, frozen=True, tag=29):
    """A request for a group's multicasts beyond these sequence numbers; passed up the tree to a node that has all of
    them.
    """

    group: Id
    wanted: Frontier
    origin: Peer
    hops: Hops


class Supply(_Tagged, frozen=True, tag=30):
    """The answer to a pull, with the sender's frontier. `is_whole`: the sender has no further entries."""

    group: Id
    frontier: Frontier
    entries: Entries
    is_whole: bool


class Replicate(_Tagged, frozen=True, tag=31):
    """State that a root replicates to its possible successors, as far as they lack it."""

    states: RootStates


class RootQuery(_Tagged, frozen=True, tag=32):
    """A query for the current root of a group, routed to the group's key."""

    group: Id
    origin: Peer
    hops: Hops


class RootAnswer(_Tagged, frozen=True, tag=33):
    """The answer to a root query by the node closest to the key: its epoch, or the lowest epoch when it is not the
    root.
    """

    group: Id
    epoch: TreeEpoch


class Acknowledge(_Tagged, frozen=True, tag=34):
    """A child's report to its parent on who has a multicast that is to be acknowledged.

    `ids`: nodes from index `offset` on, in the order in which the sender learnt of them. `members`: one byte for each,
    1 when the node has delivered the multicast, 0 when it only forwarded it. `waiting`: nodes that have not reported
    yet.
    """

    group: Id
    message_id: MessageId
    offset: Annotated[int, msgspec.Meta(ge=0, le=IDS_PER_MESSAGE_MAX)]
    ids: PackedIds
    members: Annotated[bytes, msgspec.Meta(max_length=IDS_PER_MESSAGE_MAX)]
    waiting: PackedIds


class AcknowledgeAgain(_Tagged, frozen=True, tag=36):
    """A parent's request that a child repeat its report from this index on."""

    group: Id
    message_id: MessageId
    offset: Annotated[int, msgspec.Meta(ge=0, le=IDS_PER_MESSAGE_MAX)]


class AcknowledgeResult(_Tagged, frozen=True, tag=35):
    """The root's result for the publisher: nodes that have the multicast, and nodes that did not report in time."""

    group: Id
    message_id: MessageId
    received: PackedIds
    missing: PackedIds


OverlayMessage = (
    JoinRequest
    | JoinReply
    | LeafSetProbe
    | LeafSetAnswer
    | Announcement
    | RowRequest
    | RowAnswer
    | Route
    | Direct
    | Publish
    | Disseminate
    | GroupJoin
    | GroupJoined
    | GroupRefused
    | GroupLeave
    | GroupDigest
    | Ping
    | Pong
    | Leaving
    | Absent
    | Echo
    | EchoReply
    | Response
    | PingRequest
    | RelayedPing
    | PingReport
    | Suspect
    | Refute
    | HopAck
    | EdgeBuckets
    | Pull
    | Supply
    | Replicate
    | RootQuery
    | RootAnswer
    | Acknowledge
    | AcknowledgeAgain
    | AcknowledgeResult
)
