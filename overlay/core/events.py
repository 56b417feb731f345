"""Events of a node for its owner: past-tense facts, drained by `Node.events()`."""

from dataclasses import dataclass

from overlay.wire.ids import Id
from overlay.wire.peer import Peer


@dataclass(frozen=True, slots=True)
class Joined:
    """The node is active: its leaf set has been confirmed, and it delivers from now on."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A payload was routed to a key and this node is numerically closest to it. Emitted once per message."""

    key: Id
    payload: bytes
    origin: Peer


@dataclass(frozen=True, slots=True)
class Requested:
    """A request was routed to a key and this is the closest node; answer it with `Node.respond`.

    Emitted once per request while its id is remembered; a node that becomes the closest later may emit it again.
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
    """A request of this node was abandoned. It may have been applied all the same."""

    ticket: int
    reason: str


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A payload was sent to this node itself."""

    sender: Peer
    payload: bytes


@dataclass(frozen=True, slots=True)
class MulticastReceived:
    """A payload came down the tree of a group this node is subscribed to. Emitted once per message."""

    group: Id
    payload: bytes


@dataclass(frozen=True, slots=True)
class MulticastAcknowledged:
    """All members have a multicast that was to be acknowledged, or its timeout has passed.

    Emitted at the root and at the publisher. `received`: members that have delivered it. `missing`: nodes that had not
    reported; nodes below them may lack it too. Both are empty when the publisher has not heard from the root.
    """

    group: Id
    message_id: int
    received: frozenset[Id]
    missing: frozenset[Id]


@dataclass(frozen=True, slots=True)
class EpochTaken:
    """The node has become the root of a group, in this epoch.

    Persist it before sending anything that follows, and pass it to the node at the next start.
    """

    group: Id
    counter: int


@dataclass(frozen=True, slots=True)
class Attached:
    """The node has a path to the group's root, or is the root. Emitted for forwarders too."""

    group: Id


@dataclass(frozen=True, slots=True)
class ParentChanged:
    """The node has another parent in the group's tree.

    None: it has become the root, or has lost its parent and is looking for another; `Node.is_attached` tells which.
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
    """A peer is considered dead: it is unreachable, or was silent for too long. It is no longer in any table."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class PeerRemoved:
    """A failed peer's membership has ended: its suspicion was not refuted in time."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class PeerLeft:
    """A peer has said goodbye. It is no longer in any table."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class LeafSetChanged:
    """The members of this node's leaf set have changed. Emitted by active nodes, once for several changes at a time."""


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
