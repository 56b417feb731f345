"""The messages nodes exchange. Every list has a bound, so a decoded message is as small as it should be.

The sender of a message is whom the channel says it is, and is never in the message itself.
"""

from typing import Annotated

import msgspec

from overlay.ids import DIGIT_VALUES, DIGITS, Id
from overlay.pastry.leaf_set import LEAF_SET_SIZE
from overlay.pastry.neighbourhood import NEIGHBOURHOOD_SIZE
from overlay.peer import Peer
from overlay.statistics import Traffic

HOPS_MAX = 64
PATH_LENGTH_MAX = 64
GROUPS_PER_DIGEST_MAX = 1024

Hops = Annotated[int, msgspec.Meta(ge=0, le=HOPS_MAX)]
MessageId = Annotated[int, msgspec.Meta(ge=0)]
Rows = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=DIGITS * (DIGIT_VALUES - 1))]
Row = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=DIGIT_VALUES)]
Leaves = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=LEAF_SET_SIZE)]
Neighbours = Annotated[tuple[Peer, ...], msgspec.Meta(max_length=NEIGHBOURHOOD_SIZE)]
Token = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Path = Annotated[tuple[Id, ...], msgspec.Meta(max_length=PATH_LENGTH_MAX)]
Groups = Annotated[tuple[Id, ...], msgspec.Meta(max_length=GROUPS_PER_DIGEST_MAX)]
GroupPaths = Annotated[tuple[tuple[Id, int], ...], msgspec.Meta(max_length=GROUPS_PER_DIGEST_MAX)]


class _Tagged(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The form all messages share: an array that starts with the tag."""


class JoinRequest(_Tagged, frozen=True, tag=1):
    """Routed to the joiner's own id; every hop adds the routing rows the joiner can use and lacks."""

    joiner: Peer
    hops: Hops
    next_row: Annotated[int, msgspec.Meta(ge=0, le=DIGITS)]
    rows: Rows
    neighbours: Neighbours


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
    payload: bytes


class Disseminate(_Tagged, frozen=True, tag=11):
    """A multicast on its way down from the root; hops is the depth of the receiver."""

    message_id: MessageId
    group: Id
    hops: Hops
    payload: bytes


class GroupJoin(_Tagged, frozen=True, tag=12):
    """Asks the receiver to be the sender's parent in the group's tree."""

    group: Id


class GroupJoined(_Tagged, frozen=True, tag=13):
    """Parent to child: you are my child; this is my path to the root, my parent first, empty at the root."""

    group: Id
    path: Path


class GroupRefused(_Tagged, frozen=True, tag=14):
    """You cannot be my child (you are on my path, or I am full); ask `redirect` instead, or again later."""

    group: Id
    redirect: Peer | None


class GroupLeave(_Tagged, frozen=True, tag=15):
    """Child to parent: I am not, or no longer, your child."""

    group: Id


class GroupDigest(_Tagged, frozen=True, tag=16):
    """The sender's view of the tree edges it shares with the receiver, to mend what lost messages left apart.

    `children`: groups in which the receiver is a child of the sender.
    `parents`: groups in which the receiver is the sender's parent, with a checksum of the path it gave.
    """

    children: Groups
    parents: GroupPaths


class Ping(_Tagged, frozen=True, tag=17):
    """From an active node: are you there? `wants_digest`: and what do you take our common tree edges to be?"""

    wants_digest: bool


class Pong(_Tagged, frozen=True, tag=18):
    """The answer to a ping."""


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
)

TRAFFIC: dict[type[OverlayMessage], Traffic] = {
    JoinRequest: Traffic.JOIN,
    JoinReply: Traffic.JOIN,
    LeafSetProbe: Traffic.REPAIR,
    LeafSetAnswer: Traffic.REPAIR,
    Announcement: Traffic.JOIN,
    RowRequest: Traffic.REPAIR,
    RowAnswer: Traffic.REPAIR,
    Route: Traffic.ROUTE,
    Direct: Traffic.DIRECT,
    Publish: Traffic.MULTICAST,
    Disseminate: Traffic.MULTICAST,
    GroupJoin: Traffic.TREE,
    GroupJoined: Traffic.TREE,
    GroupRefused: Traffic.TREE,
    GroupLeave: Traffic.TREE,
    GroupDigest: Traffic.TREE,
    Ping: Traffic.DETECTOR,
    Pong: Traffic.DETECTOR,
    Leaving: Traffic.JOIN,
    Absent: Traffic.JOIN,
    Echo: Traffic.REPAIR,
    EchoReply: Traffic.REPAIR,
    Response: Traffic.ROUTE,
}
"""What every message counts as in the statistics."""
