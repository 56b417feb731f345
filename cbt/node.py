"""Nodes of the compressed buffer tree, below the root buffer: each has a buffer of fragments, and children
unless it is a leaf.
"""

from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from cbt.fragment import Bound, Fragment, Panes, of_panes, position, without_panes
from cbt.layout import Layout


class Node:
    """A range of (pane, hash) that begins at `low` and ends where the next sibling's begins.

    The `low` of a first child plays no part: its range begins where its parent's does.
    """

    __slots__ = ("children", "fragments", "low")

    def __init__(
        self, low: Bound, fragments: list[Fragment] | None = None, children: "list[Node] | None" = None
    ) -> None:
        self.low = low
        self.fragments: list[Fragment] = fragments or []
        self.children: list[Node] = children or []

    @property
    def is_leaf(self) -> bool:
        return not self.children

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def raw_bytes(self) -> int:
        return sum(fragment.raw_bytes for fragment in self.fragments)

    @property
    def separators(self) -> list[Bound]:
        return [child.low for child in self.children[1:]]

    def walk(self) -> "Iterator[Node]":
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def read(self, layout: Layout, panes: Panes) -> list[pl.DataFrame]:
        """The buffer's fragments, decompressed, as far as they are of these panes."""
        return [
            of_panes(fragment.unpack(layout.schema), panes)
            for fragment in self.fragments
            if fragment.first_pane <= panes[1] and panes[0] <= fragment.last_pane
        ]

    def forget(self, layout: Layout, panes: Panes) -> None:
        """Drops the rows of some panes here and below, and the children that are left empty (but one)."""
        kept = []
        for fragment in self.fragments:
            if panes[1] < fragment.first_pane or fragment.last_pane < panes[0]:
                kept.append(fragment)
            elif not (panes[0] <= fragment.first_pane and fragment.last_pane <= panes[1]):
                rest = without_panes(fragment.unpack(layout.schema), panes)
                if rest.height:
                    kept.append(Fragment.pack(rest))
        self.fragments = kept
        for child in self.children:
            child.forget(layout, panes)
        self.children = [child for child in self.children if not child.is_empty] or self.children[:1]

    @property
    def is_empty(self) -> bool:
        return not self.fragments and all(child.is_empty for child in self.children)


def merge(layout: Layout, frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Merges frames that are each sorted and aggregated; a single one is already what it should be."""
    frames = [frame for frame in frames if frame.height]
    return frames[0] if len(frames) == 1 else layout.combine(frames)


def split_leaf(low: Bound, frame: pl.DataFrame, rows_max: int, bytes_max: int) -> list[Node]:
    """Leaves for a sorted, aggregated frame: halved at the median until a leaf has at most so many rows and
    bytes.

    Rows with the same pane and hash stay together; a leaf of nothing else may be larger.
    """
    if frame.height <= rows_max and frame.estimated_size() <= bytes_max:
        return [Node(low, fragments=[Fragment.pack(frame)] if frame.height else [])]
    middle = _bound(frame, frame.height // 2)
    start = position(frame, middle)
    if start == 0:
        start = position(frame, middle, after=True)
    if start == frame.height:
        return [Node(low, fragments=[Fragment.pack(frame)])]
    upper = frame.slice(start)
    return [
        *split_leaf(low, frame.slice(0, start), rows_max, bytes_max),
        *split_leaf(_bound(upper, 0), upper, rows_max, bytes_max),
    ]


def split_internal(low: Bound, children: list[Node], fanout: int) -> list[Node]:
    """Internal nodes over the children, as few as the fan-out allows and evenly filled."""
    count = -(-len(children) // fanout)
    cuts = [len(children) * index // count for index in range(count + 1)]
    groups = [children[start:end] for start, end in pairwise(cuts)]
    return [Node(group[0].low if index else low, children=group) for index, group in enumerate(groups)]


def _bound(frame: pl.DataFrame, index: int) -> Bound:
    return frame["pane"][index], frame["hash"][index]
