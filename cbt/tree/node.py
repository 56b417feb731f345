"""Inner nodes of the compressed buffer tree: each has a buffer of compressed fragments, and children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import polars as pl

from cbt.layout.layout import Layout
from cbt.tree.fragment import EVERY_PANE, Bound, Fragment, Panes, of_panes, without_panes
from cbt.tree.leaf import Leaf
from cbt.tree.spilled_leaf import SpilledLeaf


class BufferNode:
    """A range of (pane, hash) that begins at `low` and ends where the next sibling's begins.

    The `low` of a first child plays no part: its range begins where its parent's does.
    """

    __slots__ = ("children", "fragments", "low")

    def __init__(self, low: Bound, children: list[Child]) -> None:
        self.low, self.children = low, children
        self.fragments: list[Fragment] = []

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def raw_bytes(self) -> int:
        return sum(fragment.raw_bytes for fragment in self.fragments)

    @property
    def nbytes(self) -> int:
        """Bytes in memory of the node and all below. O(nodes)."""
        return sum(len(fragment.data) for fragment in self.fragments) + sum(child.nbytes for child in self.children)

    @property
    def separators(self) -> list[Bound]:
        return [child.low for child in self.children[1:]]

    @property
    def levels(self) -> int:
        """The number of levels, this node's and the leaves' included."""
        below = self.children[0] if self.children else None
        return 1 + (below.levels if isinstance(below, BufferNode) else int(below is not None))

    def walk(self) -> Iterator[BufferNode]:
        """This node and all inner nodes below it."""
        yield self
        for child in self.children:
            if isinstance(child, BufferNode):
                yield from child.walk()

    def leaves(self) -> Iterator[AnyLeaf]:
        """The leaves below the node, in order."""
        for child in self.children:
            if isinstance(child, BufferNode):
                yield from child.leaves()
            else:
                yield child

    def holds(self, panes: Panes) -> bool:
        """Whether there is a row of these panes here or below. O(nodes)."""
        buffered = (fragment for node in self.walk() for fragment in node.fragments)
        return any(panes[0] <= leaf.pane <= panes[1] for leaf in self.leaves()) or any(
            fragment.first_pane <= panes[1] and panes[0] <= fragment.last_pane for fragment in buffered
        )

    def replace(self, child: Child, pieces: Sequence[Child]) -> None:
        """Replaces a child by pieces. An iteration over the children that is under way goes on with the old list."""
        at = self.children.index(child)
        self.children = [*self.children[:at], *pieces, *self.children[at + 1 :]]

    def read(self, layout: Layout, panes: Panes) -> list[pl.DataFrame]:
        """The rows of these panes in the buffer's fragments, decompressed."""
        return [
            of_panes(fragment.unpack(layout.schema), panes)
            for fragment in self.fragments
            if fragment.first_pane <= panes[1] and panes[0] <= fragment.last_pane
        ]

    def forget(self, layout: Layout, panes: Panes) -> list[pl.DataFrame]:
        """Drops the rows of some panes here and below, and the children that are left empty.

        Returns the rows left in buffers of nodes that no longer have children.
        """
        kept, orphans = [], []
        for fragment in self.fragments:
            if panes[1] < fragment.first_pane or fragment.last_pane < panes[0]:
                kept.append(fragment)
            elif not (panes[0] <= fragment.first_pane and fragment.last_pane <= panes[1]):
                rest = without_panes(fragment.unpack(layout.schema), panes)
                if rest.height:
                    kept.append(Fragment.pack(rest))
        self.fragments = kept
        children: list[Child] = []
        for child in self.children:
            if not isinstance(child, BufferNode):
                if not panes[0] <= child.pane <= panes[1]:
                    children.append(child)
                continue
            orphans += child.forget(layout, panes)
            if child.children:
                children.append(child)
        self.children = children
        if not children:
            orphans += self.read(layout, EVERY_PANE)
            self.fragments = []
        return orphans


def inner_nodes(low: Bound, children: list[Child], fanout: int) -> list[BufferNode]:
    """Inner nodes over the children, as few as the fan-out allows and evenly filled."""
    count = max(1, -(-len(children) // fanout))
    cuts = [len(children) * index // count for index in range(count + 1)]
    groups = [children[start:end] for start, end in pairwise(cuts)]
    return [BufferNode(group[0].low if index else min(low, group[0].low), group) for index, group in enumerate(groups)]


AnyLeaf = Leaf | SpilledLeaf
Child = BufferNode | AnyLeaf
