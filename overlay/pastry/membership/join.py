"""The states of a node on its way into the overlay, as one table.

Theory. A node is IDLE until it is told to start an overlay of its own or to join one through a contact.

JOINING. It has sent a JoinRequest, which is routed to the joiner's own id: the node it ends at will be the joiner's
nearest neighbour. On the way, hops add the routing rows they share with the joiner, the first contact its neighbourhood
set; the last hop returns all of it with its leaf set. The reply may get lost, so the request is repeated with growing
delays until one comes. A node handles JOIN_REQUESTS_PER_S in the long run and silently refuses more, as if they were
lost: a large crowd of joiners gets in by repetition.

PROBING. The reply's statements about other nodes are hearsay: the joiner probes every node that would be in its leaf
set. A probed node takes the joiner into its own leaf set *before* it answers, so once every near node has answered,
none of them still believes that it owns the joiner's keys. Answers name further nodes, which are probed too if they are
near enough; two nodes that join side by side meet through the neighbours both have probed. A node that stays silent
through PROBE_ATTEMPTS_MAX probes is forgotten.

In either state the owner may name another contact if the first is silent. If no probed node answers, the reply came
from a ring that no longer exists: the joiner returns to JOINING instead of being alone in a new ring.

ACTIVE. No probe is open. Only now does the node deliver messages, become root of groups and answer join requests;
messages routed to it earlier were held, within a bound, and are handled at this moment. It announces itself to every
peer in its tables. From now on it periodically exchanges leaf sets with its nearest neighbours, which repairs what
concurrent joins and lost messages left inconsistent.

A node that was stalled for longer than its leases last was dropped by others and may not know it. It returns to
PROBING, keeps its tables and trees, and probes its leaf set as a joiner does; when every member has answered or is
dropped, it is ACTIVE again.

A node may leave in any state, and is then IDLE again.
"""

from enum import Enum, auto

JOIN_RETRY_S = 1.0
JOIN_BACK_OFF = 1.2
JOIN_RETRY_MAX_S = 2.0
JOIN_REQUESTS_PER_S = 50.0
JOIN_REQUESTS_BURST = 1024
"""Burst of join requests handled at once: agents embedded in one process all join through the first of them."""
PROBE_RETRY_S = 0.5
PROBE_ATTEMPTS_MAX = 8


class ProtocolError(Exception):
    """The node's owner asked for something impossible in the node's state."""


class JoinState(Enum):
    """State of a node's membership."""

    IDLE = auto()
    JOINING = auto()
    PROBING = auto()
    ACTIVE = auto()


class JoinEvent(Enum):
    """Trigger of a state transition."""

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
    """Return the next state; ProtocolError when there is no such transition.

    >>> next_state(JoinState.IDLE, JoinEvent.JOIN_CALLED)
    <JoinState.JOINING: 2>
    """
    if (state, event) not in TRANSITIONS:
        has = "not started" if state is JoinState.IDLE else "already started or joined"
        raise ProtocolError(f"{event.name} in state {state.name}: the node has {has}")
    return TRANSITIONS[state, event]
