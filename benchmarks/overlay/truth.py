"""The right state of a set of live nodes, computed from global knowledge."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from overlay import Id, Node, closer

HALF_LEAF_SET = 8


class Ring:
    """The ids of nodes in order: which is nearest to a key, and which belong in each leaf set.

    >>> ring = Ring([10, 30, 20])
    >>> ring.closest(24), sorted(ring.leaves(10))
    (20, [20, 30])
    """

    def __init__(self, node_ids: Iterable[int]) -> None:
        self._ids = sorted(node_ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def closest(self, key: int) -> int:
        """Return the id that is numerically closest to the key."""
        place = bisect_left(self._ids, key)
        above, below = self._ids[place % len(self._ids)], self._ids[place - 1]
        return above if closer(key, above, below) else below

    def leaves(self, node_id: int) -> set[int]:
        """Return the ids that a node's leaf set should hold."""
        place, size = bisect_left(self._ids, node_id), len(self._ids)
        reach = min(HALF_LEAF_SET, size - 1)
        return {self._ids[(place + step) % size] for step in range(-reach, reach + 1) if step}


def wrong_leaf_sets(nodes: Mapping[int, Node], ring: Ring) -> list[int]:
    """Return the ids of the nodes with a wrong leaf set."""
    return [
        node_id for node_id, node in nodes.items() if {peer.node_id for peer in node.leaf_set} != ring.leaves(node_id)
    ]


def depths(key: Id, nodes: Mapping[int, Node], ring: Ring) -> dict[int, int]:
    """Return, for each node attached under the group's right root, its distance from the root in hops.

    Parents are followed by global knowledge; a parent outside the given nodes ends the path.
    """
    root = ring.closest(key)
    found: dict[int, int] = {root: 0} if nodes[root].is_root(key) and nodes[root].is_attached(key) else {}
    for node_id in nodes:
        path: list[int] = []
        here: int | None = node_id
        while here is not None and here in nodes and here not in found and here not in path:
            path.append(here)
            parent = nodes[here].parent(key) if nodes[here].is_attached(key) else None
            here = None if parent is None else parent.node_id
        if here in found:
            found.update((passed, found[here] + steps) for steps, passed in enumerate(reversed(path), 1))
    return found
