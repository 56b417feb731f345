"""Connects nodes inside one process: the transport of embedded overlays and of tests.

Messages are real bytes, delivered one by one in the order they were sent.
"""

from collections import deque
from collections.abc import Iterable
from math import inf

from overlay.node import Node
from overlay.wire.peer import Peer

DELIVERIES_MAX = 10_000_000


class DeliveryLimitError(RuntimeError):
    """The messages did not cease within the bound on deliveries."""


class MemoryNetwork:
    """Carries messages between the nodes added to it, and drives their timers.

    The caller calls the nodes and drains their events; the network moves the bytes. A sender to a peer that is not in
    the network is told that it is unreachable.

    >>> import random
    >>> network = MemoryNetwork()
    >>> first, second = (Node(Peer(number, f"node-{number}"), random=random.Random(1)) for number in (1, 2))
    >>> network.add(first); network.add(second)
    >>> first.start(now=0.0); second.join(first.peer, now=0.0)
    >>> network.deliver_all(now=0.0) > 0, second.is_active
    (True, True)
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.undeliverable = 0
        """Messages to peers that are not in the network."""
        self._nodes: dict[int, Node] = {}
        self._queue: deque[tuple[Peer, Peer, bytes]] = deque()

    def add(self, node: Node) -> None:
        """Attach a node; ValueError when its id is taken."""
        if node.peer.node_id in self._nodes:
            raise ValueError(f"there is already a node {node.peer}")
        self._nodes[node.peer.node_id] = node

    def remove(self, node: Node) -> None:
        """Remove a node without notifying its peers."""
        del self._nodes[node.peer.node_id]
        self._queue = deque(one for one in self._queue if one[0] != node.peer)

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes, in the order they were added."""
        return self._nodes.values()

    def deliver_all(self, now: float, deliveries_max: int = DELIVERIES_MAX) -> int:
        """Deliver messages and the messages sent in answer until there are none; return how many were delivered.

        Timers do not run. DeliveryLimitError when more than `deliveries_max` deliveries are needed.
        """
        self.now = max(self.now, now)
        for node in self._nodes.values():
            self._fetch(node)
        deliveries = 0
        while self._queue:
            if deliveries == deliveries_max:
                raise DeliveryLimitError(f"the network is not quiet after {deliveries_max} deliveries")
            sender, receiver, data = self._queue.popleft()
            if receiver.node_id not in self._nodes:
                self.undeliverable += 1
                self._nodes[sender.node_id].unreachable(receiver, self.now)
                self._fetch(self._nodes[sender.node_id])
                continue
            deliveries += 1
            node = self._nodes[receiver.node_id]
            node.receive(sender, data, self.now)
            self._fetch(node)
        return deliveries

    def next_timer(self) -> float:
        """Return when the next timer of any node is due, infinity when there is none."""
        return min((timer for node in self._nodes.values() if (timer := node.next_timer()) is not None), default=inf)

    def advance(self) -> float:
        """Move the clock to the next timer of any node and let every node handle what is due; return the time.

        The time does not change when there is no timer. Messages the nodes send wait for `deliver_all`.
        """
        if (earliest := self.next_timer()) < inf:
            self.now = max(self.now, earliest)
        for node in self._nodes.values():
            timer = node.next_timer()
            if timer is not None and timer <= self.now:
                node.handle_timer(self.now)
        return self.now

    def _fetch(self, node: Node) -> None:
        for receiver, data in node.messages_to_send():
            self._queue.append((node.peer, receiver, data))
