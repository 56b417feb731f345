"""Watches a simulated overlay step by step, and records everything that must never happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from overlay import Delivered, Event, Joined, LeafSetChanged, MulticastReceived, Node, Simulator, closest

STEPS_PER_CHECK = 40
"""Steps between checks of one node's invariants, each node in turn; `check_all` checks all nodes."""


class Observer:
    """To be a simulator's `on_event`, and its `stop` (which never stops it).

    At once and always: a node delivers only while it is active, and nothing twice, be it routed (each payload is
    taken for a message of its own) or multicast; every part of every node keeps its invariants, among them the
    bounds of its tables.

    Counted, as no protocol can prevent it while the network is in parts: `overlap_s`, for how long some key had
    more than one active root in one component; `delivered`, how often each routed payload was, at whatever nodes;
    `delivered_by` is the first of them; `received`, at how many nodes each multicast one was.
    """

    def __init__(self, simulator: Simulator, keys: Iterable[int] = ()) -> None:
        self.violations: list[str] = []
        self.overlap_s = 0.0
        self.delivered: Counter[bytes] = Counter()
        self.delivered_by: dict[bytes, Node] = {}
        self.received: Counter[bytes] = Counter()
        self._simulator = simulator
        self._joined: set[Node] = set()
        self._seen: set[tuple[Node, type[Event], int, bytes]] = set()
        self._roots: dict[int, set[Node]] = {key: set() for key in keys}
        self._components: list[frozenset[Node]] = []
        self._has_overlap = False
        self._looked_at = 0.0
        self._turn = 0
        self._steps = 0
        simulator.on_event = self

    def __call__(self, _now: float, node: Node, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, Joined):
            self._joined.add(node)
        if isinstance(event, Delivered | MulticastReceived):
            self._apply(node, event)
        if isinstance(event, Joined | LeafSetChanged):
            self._look_at_roots([node])

    def left(self, node: Node) -> None:
        """A node's owner has taken it out: it must not deliver before it has joined anew."""
        self._joined.discard(node)
        self._look_at_roots([node])

    def divided(self, components: Sequence[Sequence[Node]]) -> None:
        """Nodes of different components cannot hear each other from now on; none given: all can."""
        self._components = [frozenset(component) for component in components]
        self._look_at_roots([])

    def step(self) -> bool:
        """Check a little, and let the simulation go on."""
        self._steps += 1
        if self._steps % STEPS_PER_CHECK == 0:
            nodes = list(self._simulator.nodes)
            self._turn += 1
            self._check(nodes[self._turn % len(nodes)])
        return False

    def check_all(self) -> None:
        """Check every node."""
        nodes = list(self._simulator.nodes)
        self._look_at_roots(nodes)
        for node in nodes:
            self._check(node)

    def _check(self, node: Node) -> None:
        try:
            node.check()
        except AssertionError as error:
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            where = "" if place is None else f"{place.tb_frame.f_code.co_qualname}:{place.tb_lineno}"
            self._report(f"{node.peer} breaks an invariant: {error} ({where})")

    def _apply(self, node: Node, event: Delivered | MulticastReceived) -> None:
        key = event.key if isinstance(event, Delivered) else event.group
        if node not in self._joined or (isinstance(event, Delivered) and not node.is_active):
            self._report(f"{node.peer} applied {event} without being in the overlay")
        seen = (node, type(event), int(key), event.payload)
        if seen in self._seen:
            self._report(f"{node.peer} applied {event} twice")
        self._seen.add(seen)
        if isinstance(event, MulticastReceived):
            self.received[event.payload] += 1
        else:
            self.delivered[event.payload] += 1
            self.delivered_by.setdefault(event.payload, node)

    def _report(self, violation: str) -> None:
        if len(self.violations) < 20:
            self.violations.append(f"at {self._simulator.now:.3f} s: {violation}")

    def _look_at_roots(self, nodes: Iterable[Node]) -> None:
        """Note which of these nodes are roots now, and add up the time since the last look."""
        now = self._simulator.now
        if self._has_overlap:
            self.overlap_s += now - self._looked_at
        self._looked_at = now
        up = set(self._simulator.nodes)
        for key, roots in self._roots.items():
            roots &= up
            for node in nodes:
                if node in up and node.is_root(key):
                    roots.add(node)
                else:
                    roots.discard(node)
        self._has_overlap = any(self._overlap(roots) for roots in self._roots.values())

    def _overlap(self, roots: set[Node]) -> bool:
        if len(roots) < 2:
            return False
        if not self._components:
            return True
        return any(len(roots & component) > 1 for component in self._components)


def routing_errors(observer: Observer, routed: dict[bytes, int], nodes: Sequence[Node]) -> list[str]:
    """Name the payloads, of those routed to these keys among these nodes, that did not come to the closest, once."""
    ids = [node.peer.node_id for node in nodes]
    errors = []
    for payload, key in routed.items():
        by = observer.delivered_by.get(payload)
        if observer.delivered[payload] != 1 or by is None:
            errors.append(f"a payload routed to {key:032x} was delivered {observer.delivered[payload]} times")
        elif by.peer.node_id != closest(key, ids):
            errors.append(f"a payload routed to {key:032x} was delivered at {by.peer}, which is not the closest")
    return errors
