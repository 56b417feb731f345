"""Keeps waiting lots by deadline so that overload, and what to abandon, is found in logarithmic time (Li et al., 4.2).

A balanced binary search tree (AVL) has one node for each distinct deadline. Each node says of its subtree what all of
it costs, what its dearest event costs, and when to start at the latest so that nothing in it is late. Below, m is the
number of lots and g that of distinct deadlines. Numbers may be of any unit: deadlines, costs and `now` of the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sortedcontainers import SortedList

from agent.runtime.scheduling.lots import Lot

_Entry = tuple[float, int, Lot]
"""A lot behind the cost of its events, and its number: lots of a deadline are in this order."""


class _Group:
    """The lots of one deadline, and the summary of the subtree below it (`cost`: c_Σ, `cost_max`: c_max,
    `latest_start`: φ)."""

    __slots__ = (
        "cost", "cost_max", "deadline", "height", "latest_start", "left", "lots", "own_cost", "own_cost_max", "right",
    )  # fmt: skip

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.lots: SortedList = SortedList()
        self.own_cost: float = 0
        self.own_cost_max: float = 0
        self.left: _Group | None = None
        self.right: _Group | None = None
        self.height = 1
        self.cost: float = 0
        self.cost_max: float = 0
        self.latest_start: float = deadline

    def add(self, lot: Lot, entry: _Entry) -> None:
        """Adds a lot. Summaries are computed afterwards."""
        self.lots.add(entry)
        self.own_cost += lot.cost
        self.own_cost_max = max(self.own_cost_max, lot.cost_s)

    def remove(self, lot: Lot, entry: _Entry) -> None:
        """Removes a lot, but not the last one."""
        self.lots.remove(entry)
        self.own_cost -= lot.cost
        if lot.cost_s == self.own_cost_max:
            self.own_cost_max = self.lots[-1][0]

    def summarize(self) -> None:
        """Computes the summary from those of both children, in O(1)."""
        left, right, upto, height = self.left, self.right, self.own_cost, 0
        cost_max, latest = self.own_cost_max, self.deadline
        if left is not None:
            upto += left.cost
            height = left.height
            if left.cost_max > cost_max:
                cost_max = left.cost_max
        latest -= upto
        if left is not None and left.latest_start < latest:
            latest = left.latest_start
        if right is not None:
            if right.latest_start - upto < latest:
                latest = right.latest_start - upto
            upto += right.cost
            if right.height > height:
                height = right.height
            if right.cost_max > cost_max:
                cost_max = right.cost_max
        self.cost, self.cost_max, self.latest_start, self.height = upto, cost_max, latest, height + 1


class ScheduleTree:
    """A set of lots in order of their deadlines (Table 3).

    Summaries are computed when they are asked for: several changes to the lots of a deadline cost as much as one, which
    is O(log g).
    """

    def __init__(self) -> None:
        self._root: _Group | None = None
        self._groups: dict[float, _Group] = {}
        self._entries: dict[Lot, _Entry] = {}
        self._numbers = itertools.count()
        self._stale: set[float] = set()
        """Deadlines whose lots have changed since the summaries above them were computed."""
        self.events = 0

    def __len__(self) -> int:
        """The number of lots."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Lot]:
        """Yields all lots in the order in which they came."""
        return iter(self._entries)

    def __contains__(self, lot: Lot) -> bool:
        return lot in self._entries

    @property
    def cost(self) -> float:
        """The cost of all events."""
        root = self._summarized()
        return 0 if root is None else root.cost

    def insert(self, lot: Lot) -> None:
        """Adds a lot. O(log m)."""
        if lot in self._entries:
            raise ValueError("this lot is in the tree already")
        entry = self._entries[lot] = (lot.cost_s, next(self._numbers), lot)
        self.events += lot.events
        group = self._groups.get(lot.deadline)
        if group is None:
            group = self._groups[lot.deadline] = _Group(lot.deadline)
            group.add(lot, entry)
            group.summarize()
            self._root = _with(self._root, group)
        else:
            group.add(lot, entry)
            self._stale.add(lot.deadline)

    def delete(self, lot: Lot) -> None:
        """Removes a lot; KeyError if it is not there. O(log m)."""
        entry = self._entries.pop(lot)
        group = self._groups[lot.deadline]
        self.events -= lot.events
        if len(group.lots) > 1:
            group.remove(lot, entry)
            self._stale.add(lot.deadline)
        else:
            self._stale.discard(lot.deadline)
            del self._groups[lot.deadline]
            self._root = _without(self._root, lot.deadline)

    def shrunk(self, lot: Lot, events: int) -> None:
        """Notes that so many events have been taken off a lot that is in the tree. O(1)."""
        self._groups[lot.deadline].own_cost -= events * lot.cost_s
        self.events -= events
        self._stale.add(lot.deadline)

    def schedulable(self, now: float) -> bool:
        """Whether no event is late if all are processed from now on, in order of their deadlines. O(1)."""
        root = self._summarized()
        return root is None or now <= root.latest_start

    def min_unscheduled_group(self, now: float) -> tuple[float, float] | None:
        """The first deadline that the events due by then miss, if they are processed from now on, and the excess of
        their cost; None if none does. O(log g)."""
        if self.schedulable(now):
            return None
        node, at = self._root, now
        while node is not None:
            left, done = node.left, at + node.own_cost
            if left is not None:
                if at > left.latest_start:
                    node = left
                    continue
                done += left.cost
            if done > node.deadline:
                return node.deadline, done - node.deadline
            node, at = node.right, done
        return None

    def max_cost_in_groups(self, deadline: float) -> Lot | None:
        """The lot with the dearest events among those due by `deadline`; of equals one that is due first. O(log g)."""
        node, cost_max = self._summarized(), 0.0
        subtree: _Group | None = None
        group: _Group | None = None
        while node is not None:
            if node.deadline > deadline:
                node = node.left
                continue
            if node.left is not None and node.left.cost_max > cost_max:
                subtree, group, cost_max = node.left, None, node.left.cost_max
            if node.own_cost_max > cost_max:
                subtree, group, cost_max = None, node, node.own_cost_max
            node = node.right
        if subtree is not None:
            group = _with_cost(subtree, cost_max)
        if group is None:
            return None
        lot: Lot = group.lots[-1][2]
        return lot

    def cost_in_groups(self, deadline: float) -> float:
        """The cost of all events due by `deadline`. O(log g)."""
        node, cost = self._summarized(), 0.0
        while node is not None:
            if node.deadline <= deadline:
                cost += node.own_cost + (0 if node.left is None else node.left.cost)
                node = node.right
            else:
                node = node.left
        return cost

    def is_due(self, deadline: float) -> bool:
        """Whether any event is due by `deadline`. O(log g)."""
        lot = self.next()
        return lot is not None and lot.deadline <= deadline

    def next(self) -> Lot | None:
        """A lot with the earliest deadline; of those the one with the cheapest events, so that what is abandoned later
        has cost nothing. O(log g)."""
        node = self._root
        if node is None:
            return None
        while node.left is not None:
            node = node.left
        lot: Lot = node.lots[0][2]
        return lot

    def _summarized(self) -> _Group | None:
        """The root, once all summaries are up to date."""
        for deadline in self._stale:
            node, path = self._root, []
            while node is not None:
                path.append(node)
                if node.deadline == deadline:
                    break
                node = node.left if deadline < node.deadline else node.right
            for one in reversed(path):
                one.summarize()
        self._stale.clear()
        return self._root


def _with_cost(node: _Group, cost: float) -> _Group:
    """The earliest group below a node, itself included, whose dearest event has this cost, which some group has."""
    while True:
        if node.left is not None and node.left.cost_max == cost:
            node = node.left
        elif node.own_cost_max == cost or node.right is None:
            return node
        else:
            node = node.right


def _with(node: _Group | None, group: _Group) -> _Group:
    """Returns the root of a subtree to which a group is added."""
    if node is None:
        return group
    if group.deadline < node.deadline:
        node.left = _with(node.left, group)
    else:
        node.right = _with(node.right, group)
    return _balanced(node)


def _without(node: _Group | None, deadline: float) -> _Group | None:
    """Returns the root of a subtree from which a group is removed."""
    assert node is not None, "only groups that are in the tree are removed"
    if deadline < node.deadline:
        node.left = _without(node.left, deadline)
    elif deadline > node.deadline:
        node.right = _without(node.right, deadline)
    elif node.left is None or node.right is None:
        return node.right if node.left is None else node.left
    else:
        first, rest = _first_and_rest(node.right)
        first.left, first.right = node.left, rest
        node = first
    return _balanced(node)


def _first_and_rest(node: _Group) -> tuple[_Group, _Group | None]:
    """Takes the earliest group off a subtree; returns it, and the root of the others."""
    if node.left is None:
        return node, node.right
    first, node.left = _first_and_rest(node.left)
    return first, _balanced(node)


def _height(node: _Group | None) -> int:
    return 0 if node is None else node.height


def _balanced(node: _Group) -> _Group:
    """Returns the root of a subtree, rotated where one side is two higher than the other, with its summaries."""
    slope = _height(node.left) - _height(node.right)
    if slope > 1:
        assert node.left is not None
        if _height(node.left.left) < _height(node.left.right):
            node.left = _rotated_left(node.left)
        return _rotated_right(node)
    if slope < -1:
        assert node.right is not None
        if _height(node.right.right) < _height(node.right.left):
            node.right = _rotated_right(node.right)
        return _rotated_left(node)
    node.summarize()
    return node


def _rotated_right(node: _Group) -> _Group:
    top = node.left
    assert top is not None
    node.left, top.right = top.right, node
    node.summarize()
    top.summarize()
    return top


def _rotated_left(node: _Group) -> _Group:
    top = node.right
    assert top is not None
    node.right, top.left = top.left, node
    node.summarize()
    top.summarize()
    return top
