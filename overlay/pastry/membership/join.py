"""The states of a node on its way into the overlay, as one table.

Theory. A node is IDLE until it is told to start an overlay of its own or to join one through a contact.

JOINING. It has sent a JoinRequest, which is routed to the joiner's own id: the node it ends at is the
joiner's nearest neighbour to be. On the way, hops add the routing rows they share with the joiner, the
first contact its neighbourhood set; the last hop sends all of it back with its leaf set. The reply may get
lost, so the request is repeated until one comes, less and less often. A node handles JOIN_REQUESTS_PER_S in the long
run; what is more is refused without a word, as if it were lost: too large a herd gets in by its repetitions.

PROBING. What the reply says about others is hearsay: the joiner probes every node that would stand in its
leaf set. Who is probed takes the joiner into its own leaf set *before* it answers, so once every near node
has answered, none of them still believes the joiner's keys to be its own. Answers name further nodes, which
are probed too if they are near enough; two nodes that join side by side meet through the neighbours both
have probed. A node that stays silent through PROBE_ATTEMPTS_MAX probes is forgotten.

In all of this the owner may name another contact, should the first be silent. If none of those probed
answers, the reply came from a ring that is no more: the joiner is back at JOINING, not alone in a new ring.

ACTIVE. No probe is open. Only now the node delivers, is root of groups, and answers join requests; what was
routed to it before has been held, in bounded room, and is looked at again at this moment. It announces
itself to everyone in its tables. From now on leaf sets are exchanged with the nearest neighbours
periodically, which mends what concurrent joins and lost messages left apart.

A node that stood still for longer than its leases last was dropped by others and may not know it. It is back at
PROBING, keeps its tables and trees, and probes its leaf set as a joiner does; when everyone has answered or is
dropped, it is ACTIVE again.

A node may leave in any state; it is IDLE again then.
"""

from enum import Enum, auto

JOIN_RETRY_S = 1.0
JOIN_BACK_OFF = 1.2
JOIN_RETRY_MAX_S = 2.0
JOIN_REQUESTS_PER_S = 50.0
JOIN_REQUESTS_BURST = 1024
"""So many agents embedded in one process join through the first of them in no time."""
PROBE_RETRY_S = 0.5
PROBE_ATTEMPTS_MAX = 8


class ProtocolError(Exception):
    """The program that owns the node asked for something that is impossible in the node's state."""


class JoinState(Enum):
    """Where a node stands."""

    IDLE = auto()
    JOINING = auto()
    PROBING = auto()
    ACTIVE = auto()


class JoinEvent(Enum):
    """What moves a node on."""

    START_CALLED = auto()
    JOIN_CALLED = auto()
    REPLY_RECEIVED = auto()
    ALL_ANSWERED = auto()
    NOBODY_ANSWERED = auto()
    STOOD_STILL = auto()
    LEAVE_CALLED = auto()


TRANSITIONS: dict[tuple[JoinState, JoinEvent], JoinState] = {
    (JoinState.IDLE, JoinEvent.START_CALLED): JoinState.ACTIVE,
    (JoinState.IDLE, JoinEvent.JOIN_CALLED): JoinState.JOINING,
    (JoinState.JOINING, JoinEvent.REPLY_RECEIVED): JoinState.PROBING,
    (JoinState.JOINING, JoinEvent.JOIN_CALLED): JoinState.JOINING,
    (JoinState.JOINING, JoinEvent.LEAVE_CALLED): JoinState.IDLE,
    (JoinState.PROBING, JoinEvent.JOIN_CALLED): JoinState.PROBING,
    (JoinState.PROBING, JoinEvent.ALL_ANSWERED): JoinState.ACTIVE,
    (JoinState.PROBING, JoinEvent.NOBODY_ANSWERED): JoinState.JOINING,
    (JoinState.PROBING, JoinEvent.LEAVE_CALLED): JoinState.IDLE,
    (JoinState.ACTIVE, JoinEvent.STOOD_STILL): JoinState.PROBING,
    (JoinState.ACTIVE, JoinEvent.LEAVE_CALLED): JoinState.IDLE,
}


def next_state(state: JoinState, event: JoinEvent) -> JoinState:
    """Look the transition up; ProtocolError when there is none.

    >>> next_state(JoinState.IDLE, JoinEvent.JOIN_CALLED)
    <JoinState.JOINING: 2>
    """
    if (state, event) not in TRANSITIONS:
        has = "not started" if state is JoinState.IDLE else "already started or joined"
        raise ProtocolError(f"{event.name} in state {state.name}: the node has {has}")
    return TRANSITIONS[state, event]
