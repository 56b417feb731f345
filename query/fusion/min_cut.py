"""Minimum cuts of small networks (Dinic's algorithm)."""

from __future__ import annotations


class Network:
    """Nodes between a source and a sink, with capacities in whole numbers, for one minimum cut.

    A node's place is beside the source or beside the sink. `steps` counts the arcs that the search has looked at.

    >>> network = Network(2)
    >>> network.add_terminals(0, 5, 0); network.add_terminals(1, 0, 9); network.add_arc(0, 1, 3, 0)
    >>> network.minimum_cut(), network.beside_sink(0), network.beside_sink(1)
    (3, False, True)
    """

    def __init__(self, nodes: int) -> None:
        self._source, self._sink = nodes, nodes + 1
        self._heads: list[int] = []
        self._left: list[int] = []
        self._arcs: list[list[int]] = [[] for _ in range(nodes + 2)]
        self._levels: list[int] = []
        self.steps = 0

    def add_arc(self, tail: int, head: int, capacity: int, back: int) -> None:
        """Adds an arc, which is cut where `tail` is beside the source and `head` beside the sink; `back` is the
        capacity of the arc in the other direction."""
        self._arcs[tail].append(len(self._heads))
        self._arcs[head].append(len(self._heads) + 1)
        self._heads += (head, tail)
        self._left += (capacity, back)

    def add_terminals(self, node: int, beside_sink: int, beside_source: int) -> None:
        """Adds what it costs to have a node beside the sink, and beside the source."""
        if beside_sink:
            self.add_arc(self._source, node, beside_sink, 0)
        if beside_source:
            self.add_arc(node, self._sink, beside_source, 0)

    def minimum_cut(self) -> int:
        """The cost of the cheapest places of all nodes. O(nodes² · arcs), far less as a rule."""
        flow = 0
        while self._find_levels():
            unused = [list(arcs) for arcs in self._arcs]
            while pushed := self._push(unused):
                flow += pushed
        return flow

    def beside_sink(self, node: int) -> bool:
        """Whether the cut has put a node beside the sink."""
        return self._levels[node] < 0

    def _find_levels(self) -> bool:
        """Numbers nodes by their distance from the source; whether the sink can be reached."""
        self._levels = [-1] * len(self._arcs)
        self._levels[self._source] = 0
        reached = [self._source]
        for node in reached:
            self.steps += len(self._arcs[node])
            for arc in self._arcs[node]:
                head = self._heads[arc]
                if self._left[arc] and self._levels[head] < 0:
                    self._levels[head] = self._levels[node] + 1
                    reached.append(head)
        return self._levels[self._sink] >= 0

    def _push(self, unused: list[list[int]]) -> int:
        """Sends what fits along one of the shortest paths to the sink; 0 if there is none left. `unused`: the arcs of
        each node that may still lead there."""
        path: list[int] = []
        node = self._source
        while node != self._sink:
            if (arc := self._next_arc(node, unused[node])) is not None:
                path.append(arc)
                node = self._heads[arc]
            elif path:
                node = self._heads[path.pop() ^ 1]
                unused[node].pop()
            else:
                return 0
        pushed = min(self._left[arc] for arc in path)
        for arc in path:
            self._left[arc] -= pushed
            self._left[arc ^ 1] += pushed
        return pushed

    def _next_arc(self, node: int, unused: list[int]) -> int | None:
        """The first arc of a node that leads on; drops those before it."""
        while unused:
            self.steps += 1
            arc = unused[-1]
            if self._left[arc] and self._levels[self._heads[arc]] == self._levels[node] + 1:
                return arc
            unused.pop()
        return None
