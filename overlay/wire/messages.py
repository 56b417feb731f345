"""The messages nodes exchange. Every list has a bound, so a decoded message is as small as it should be.

The sender of a message is whom the channel says it is, and is never in the message itself.
"""

from typing import Annotated

import msgspec

from overlay.wire.epoch import TreeEpoch
from overlay.wire.ids import DIGIT_VALUES, DIGITS, ID_BYTES, Id
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    Entries,
    Frontier,
    MulticastEntry,
    Refusal,
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
Refusals = Annotated[tuple[Refusal, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]
UpwardEdges = Annotated[tuple[UpwardEdge, ...], msgspec.Meta(max_length=GROUPS_PER_DIGEST_MAX)]
Buckets = Annotated[tuple[Digest, ...], msgspec.Meta(min_length=EDGE_BUCKETS, max_length=EDGE_BUCKETS)]
RootStates = Annotated[tuple[RootState, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]


class _Tagged(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The form all messages share: an array that starts with the tag."""


class JoinRequest(_Tagged, frozen=True, tag=1):
    """Routed to the joiner's own id; every hop adds the routing rows the joiner can use and lacks."""

    joiner: Peer
    hops: Hops
    next_row: Annotated[int, msgspec.Meta(ge=0, le=DIGITS)]
    rows: Rows
    neighbours: Neighbours
    message_id: MessageId


class JoinReply(_Tagged, frozen=True, tag=2):
    """From the last hop to the joiner: everything gathered on the way, and the last hop's leaf set."""

    rows: Rows
    neighbours: Neighbours
    leaves: Leaves


class LeafSetProbe(_Tagged, frozen=True, tag=3):
    """Here I am, this is my leaf set; take me into yours if I am near, and answer."""

    leaves: Leaves


class LeafSetAnswer(_Tagged, frozen=True, tag=4):
    """The answer to a probe: the leaf set after the prober was considered for it."""

    leaves: Leaves


class Announcement(_Tagged, frozen=True, tag=5):
    """The sender has become active; for the tables of those it knows."""


class RowRequest(_Tagged, frozen=True, tag=6):
    """Asks for one row of the receiver's routing table."""

    row: Annotated[int, msgspec.Meta(ge=0, lt=DIGITS)]


class RowAnswer(_Tagged, frozen=True, tag=7):
    """The peers of the row asked for."""

    peers: Row


class Route(_Tagged, frozen=True, tag=8):
    """A payload on its way to the node closest to a key, which its origin may want to answer it."""

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
    """A multicast that is still seeking the root of its group."""

    message_id: MessageId
    group: Id
    hops: Hops
    wanted: Wanted | None
    payload: bytes


class Disseminate(_Tagged, frozen=True, tag=11):
    """A multicast on its way down from the root that is in office; hops is the depth of the receiver."""

    group: Id
    hops: Hops
    entry: MulticastEntry


class GroupJoin(_Tagged, frozen=True, tag=12):
    """Asks the receiver to be the sender's parent in these groups' trees."""

    statuses: TreeStatuses


class GroupJoined(_Tagged, frozen=True, tag=13):
    """Parent to child: you are my child in these trees, and this is where I am in them; again where that changes."""

    positions: TreePositions


class GroupRefused(_Tagged, frozen=True, tag=14):
    """You cannot be my child (you are on my path, or I am full); ask another instead, or again later."""

    refusals: Refusals


class GroupLeave(_Tagged, frozen=True, tag=15):
    """Child to parent: I am not, or no longer, your child in these trees."""

    groups: Annotated[tuple[Id, ...], msgspec.Meta(max_length=GROUPS_PER_MESSAGE_MAX)]


class GroupDigest(_Tagged, frozen=True, tag=16):
    """The sender's view of the tree edges it shares with the receiver, to mend what lost messages left apart.

    `buckets`: of which part of the groups, as bits. `children`: groups in which the receiver is a child of the
    sender. `parents`: those in which it is its parent. `asks`: for the receiver's view of the same part.
    """

    buckets: Annotated[int, msgspec.Meta(ge=0, lt=1 << EDGE_BUCKETS)]
    children: Groups
    parents: UpwardEdges
    asks: bool


class Ping(_Tagged, frozen=True, tag=17):
    """From a member: are you there? A token that was seen before: the answer has not come yet.

    `edges`: a digest of the tree edges that the sender believes to share with the receiver.
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
    """The sender leaves the overlay, now."""


class Absent(_Tagged, frozen=True, tag=20):
    """To who takes the sender for a member: it is none, or not yet; the one of its id that was one is no more."""


class Echo(_Tagged, frozen=True, tag=40):
    """To be sent back at once, so that the sender learns how far away the receiver is."""

    token: Token


class EchoReply(_Tagged, frozen=True, tag=41):
    """The answer to an echo."""

    token: Token


class Response(_Tagged, frozen=True, tag=42):
    """The answer to a routed message that wanted one; the ticket is that message's id."""

    ticket: MessageId
    payload: bytes


class PingRequest(_Tagged, frozen=True, tag=21):
    """Ping the target for me, and tell me whether it answers: it does not answer me."""

    target: Peer
    token: Token


class RelayedPing(_Tagged, frozen=True, tag=22):
    """A ping in the name of another, whom the receiver does not answer, or who does not hear its answers."""

    token: Token
    origin: Peer


class PingReport(_Tagged, frozen=True, tag=23):
    """To who asked for a ping: the target has answered it, or has not so far."""

    target: Id
    token: Token
    reached: bool


class Suspect(_Tagged, frozen=True, tag=24):
    """The sender suspects a peer, in the incarnation it knows, of being dead. For the suspect and who watches it."""

    peer: Id
    incarnation: Incarnation


class Refute(_Tagged, frozen=True, tag=25):
    """The answer of a suspect that is well."""

    incarnation: Incarnation


class HopAck(_Tagged, frozen=True, tag=26):
    """The sender has taken over a routed message from the receiver."""

    message_id: MessageId


class EdgeBuckets(_Tagged, frozen=True, tag=28):
    """The digest of pings differs for long: here it is in parts; say what you take the edges in other parts to be."""

    digests: Buckets


class Pull(_Tagged, frozen=True, tag=29):
    """Asks for a group's multicasts beyond these numbers; passed on up the tree to who keeps all of them."""

    group: Id
    wanted: Frontier
    origin: Peer
    hops: Hops


class Supply(_Tagged, frozen=True, tag=30):
    """The answer to a pull, with how far the sender is. `is_whole`: it keeps no more than this."""

    group: Id
    frontier: Frontier
    entries: Entries
    is_whole: bool


class Replicate(_Tagged, frozen=True, tag=31):
    """From a root to those who may be the next one: what they will need, as far as they do not have it yet."""

    states: RootStates


class RootQuery(_Tagged, frozen=True, tag=32):
    """Routed to a group's key: which root is in office there?"""

    group: Id
    origin: Peer
    hops: Hops


class RootAnswer(_Tagged, frozen=True, tag=33):
    """The answer to a query, from the node closest to the key: its epoch; the lowest of all where it is no root."""

    group: Id
    epoch: TreeEpoch


class Acknowledge(_Tagged, frozen=True, tag=34):
    """Up the tree: who has a multicast that is to be acknowledged.

    `ids`: those from place `offset` on in the order in which the sender learnt of them; `members`: a byte for each,
    1 where it has raised the multicast, 0 where it only passed it on. `waiting`: who has not been heard of yet.
    """

    group: Id
    message_id: MessageId
    offset: Annotated[int, msgspec.Meta(ge=0, le=IDS_PER_MESSAGE_MAX)]
    ids: PackedIds
    members: Annotated[bytes, msgspec.Meta(max_length=IDS_PER_MESSAGE_MAX)]
    waiting: PackedIds


class AcknowledgeAgain(_Tagged, frozen=True, tag=36):
    """Down the tree: say who has the multicast from this place in your order on."""

    group: Id
    message_id: MessageId
    offset: Annotated[int, msgspec.Meta(ge=0, le=IDS_PER_MESSAGE_MAX)]


class AcknowledgeResult(_Tagged, frozen=True, tag=35):
    """The root's word to the publisher: who has the multicast, and who was not heard of in time."""

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
