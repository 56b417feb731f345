"""What a node tells the program it lives in: past-tense facts, drained by `Node.events()`."""

from dataclasses import dataclass

from overlay.wire.ids import Id
from overlay.wire.peer import Peer


@dataclass(frozen=True, slots=True)
class Joined:
    """The node is active: its leaf set has agreed, and from now on it delivers."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A payload was routed to a key and this is the node numerically closest to it. Raised once a message."""

    key: Id
    payload: bytes
    origin: Peer


@dataclass(frozen=True, slots=True)
class Requested:
    """A request was routed to a key and this is the closest node: to be answered with `Node.respond`.

    Raised once a request, as long as its id is remembered; a closest node that comes after this one may raise it too.
    """

    key: Id
    payload: bytes
    origin: Peer
    ticket: int


@dataclass(frozen=True, slots=True)
class Responded:
    """A request of this node was answered."""

    ticket: int
    payload: bytes
    responder: Peer


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request of this node was given up. It may have been applied all the same."""

    ticket: int
    reason: str


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A payload was sent to this node itself."""

    sender: Peer
    payload: bytes


@dataclass(frozen=True, slots=True)
class MulticastReceived:
    """A payload came down the tree of a group this node is subscribed to. Raised once a message."""

    group: Id
    payload: bytes


@dataclass(frozen=True, slots=True)
class MulticastAcknowledged:
    """All members have a multicast that was to be acknowledged, or its time is up.

    Raised at the root and at the publisher. `received`: the members that have raised it. `missing`: who had not
    reported, with whoever is below them. Both are empty where the root was not heard of.
    """

    group: Id
    message_id: int
    received: frozenset[Id]
    missing: frozenset[Id]


@dataclass(frozen=True, slots=True)
class EpochTaken:
    """The node has become the root of a group, for the time of this epoch.

    To be on disk before anything is sent that comes after it; and to be given to the node of the next start.
    """

    group: Id
    counter: int


@dataclass(frozen=True, slots=True)
class Attached:
    """The node has a path to the group's root, or is the root. Raised for forwarders too."""

    group: Id


@dataclass(frozen=True, slots=True)
class ParentChanged:
    """The node has another parent in the group's tree.

    None: it has become the root, or has lost its parent and seeks another; `Node.is_attached` tells which.
    """

    group: Id
    parent: Peer | None


@dataclass(frozen=True, slots=True)
class ChildAdded:
    """A peer has become a child of this node in the group's tree."""

    group: Id
    child: Peer


@dataclass(frozen=True, slots=True)
class ChildRemoved:
    """A peer has left this node's children in the group's tree."""

    group: Id
    child: Peer


@dataclass(frozen=True, slots=True)
class PeerFailed:
    """A peer is taken for dead: it cannot be reached, or was silent for too long. It is in no table any more."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class PeerRemoved:
    """A peer that failed has not been heard of for so long, or is missed by so many, that it is a member no more."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """A peer has said goodbye. It is in no table any more."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class LeafSetChanged:
    """Others than before are this node's nearest. Raised by active nodes, once for several changes at a time."""


Event = (
    Joined
    | Delivered
    | Requested
    | Responded
    | RequestFailed
    | MessageReceived
    | MulticastReceived
    | MulticastAcknowledged
    | EpochTaken
    | Attached
    | ParentChanged
    | ChildAdded
    | ChildRemoved
    | PeerFailed
    | PeerRemoved
    | PeerLeft
    | LeafSetChanged
)
