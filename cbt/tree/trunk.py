"""The trunk: all of a compressed buffer tree that is below the root's buffer, and how rows go down it."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from cbt.algebra.key_index import Rows
from cbt.layout.layout import Layout
from cbt.layout.whole_groups import whole_groups
from cbt.tree.batch import Batch, of_frame
from cbt.tree.fragment import EVERY_PANE, LOWEST, Bound, Fragment, Panes
from cbt.tree.invariants import check_tree
from cbt.tree.key_store import EncodedKeys
from cbt.tree.leaf import Leaf
from cbt.tree.node import Child, Node, inner_nodes
from cbt.tree.spill_files import SpillError, SpillFiles
from cbt.tree.spilled_leaf import SpilledLeaf


class Spilling:
    """Moves leaves, and what came late to leaves that are on disk, to files under `directory` once a trunk holds more
    than `limit_bytes`. Raises SpillError if it may write nothing there.

    A file that cannot be written or read costs no row that is in memory: `failure` says so, and all goes on.
    """

    def __init__(self, layout: Layout, limit_bytes: int, directory: Path) -> None:
        self.failure: str | None = None
        self._layout = layout
        self._limit_bytes = limit_bytes
        self._files = SpillFiles(directory)

    def is_short(self, root: Node) -> bool:
        """Whether more is held than may be, although all that can go to disk has gone there. O(nodes)."""
        return self.failure is None and root.nbytes > self._limit_bytes

    def make_room(self, root: Node) -> None:
        """Spills no more than it has to: leaves, least recently touched first, then late rows. O(nodes + bytes)."""
        try:
            self._spill_late(root, self._spill_leaves(root, root.nbytes - self._limit_bytes))
        except SpillError as error:
            self.failure = str(error)

    def spill_all(self, root: Node) -> bool:
        """Moves every leaf to disk. Returns whether the disk has taken them. O(bytes)."""
        try:
            self._spill_leaves(root, root.nbytes)
        except SpillError as error:
            self.failure = str(error)
            return False
        return True

    def close(self) -> None:
        self._files.close()

    def _spill_leaves(self, root: Node, excess: int) -> int:
        """Returns how much is still too much."""
        if excess <= 0:
            return 0
        homes = {leaf: node for node in root.walk() for leaf in node.children if isinstance(leaf, Leaf)}
        for leaf in sorted(homes, key=attrgetter("touched")):
            if excess <= 0:
                break
            excess -= leaf.nbytes
            homes[leaf].replace(leaf, [SpilledLeaf(self._layout, leaf, self._files)])
        return excess

    def _spill_late(self, root: Node, excess: int) -> None:
        if excess <= 0:
            return
        spilled = [leaf for leaf in root.leaves() if isinstance(leaf, SpilledLeaf) and leaf.nbytes]
        for leaf in sorted(spilled, key=attrgetter("nbytes"), reverse=True):
            if excess <= 0:
                break
            excess -= leaf.nbytes
            leaf.write_late(self._files)


BUFFER_BYTES = 2**26  # rows bound the buffers of ordinary keys, these bytes those of huge ones
LEAF_BYTES = 2**24
_COMPACT_ROWS = 2**15
_PARTS = 2  # a full leaf is split into so many
_RIPE_SHARE = 32  # fewer rows than this share of a full leaf are no reason to read one from disk


class Limits(NamedTuple):
    """How many PAOs a buffer, how many children a node, and how many keys a leaf may have."""

    buffer_rows: int
    fanout: int
    leaf_rows: int


class _News(NamedTuple):
    """Rows of a batch with keys that are new to a leaf, and where they belong in it."""

    leaf: Leaf
    part: Batch
    rows: Rows
    at: Rows


class Interior:
    """Takes batches, and holds their PAOs in leaves and, above these, in inner nodes' buffers."""

    def __init__(self, layout: Layout, limits: Limits, spilling: Spilling | None) -> None:
        self.root = Node(LOWEST, [])
        self.stored_rows = 0
        self._layout = layout
        self._limits = limits
        self._compact_rows = 0
        """How many were stored when sketches were compacted last; they are again when there are twice as many."""
        self._spilling = spilling
        self._changes = 0

    def add(self, batches: list[Batch]) -> None:
        """Takes one block's batches. Amortised O(n · levels)."""
        self._changes += 1
        self._pour(self.root, LOWEST, batches)
        self._grow()
        if self._layout.shrinks and self.stored_rows >= 2 * max(self._compact_rows, _COMPACT_ROWS):
            self._compact()
        if self._spilling and self._spilling.is_short(self.root):
            self.settle()

    def settle(self) -> None:
        """Empties all buffers: every PAO is in a leaf then. O(n) for n PAOs in buffers."""
        self._settle(self.root, LOWEST)
        self._grow()
        self._shrink()
        if self._spilling:
            self._spilling.make_room(self.root)

    def forget(self, panes: Panes) -> None:
        """Drops the rows of some panes. O(nodes + n) for n rows in buffers that the panes touch."""
        orphans = self.root.forget(self._layout, panes)
        if not self.root.children:
            self.root = Node(LOWEST, [])
        for frame in orphans:
            self._pour(self.root, LOWEST, of_frame(self._layout, frame))
        self._grow()
        self._shrink()
        self.stored_rows = self._count_rows()
        self._compact_rows = min(self._compact_rows, self.stored_rows)

    def check(self) -> None:
        """Asserts every invariant. Decompresses everything."""
        check_tree(self.root, self._layout, *self._limits)
        assert self.stored_rows == self._count_rows(), "rows are counted"

    def _count_rows(self) -> int:
        return sum(node.rows for node in self.root.walk()) + sum(map(len, self.root.leaves()))

    def _compact(self) -> None:
        """Shrinks all sketches: what a block brought was compacted for itself alone."""
        self.settle()
        if self._spilling is None:
            self._pour_anew()
        elif self._spilling.spill_all(self.root):
            before = self.root, self.stored_rows
            try:
                self._pour_anew()
            except SpillError as error:
                self._spilling.failure = str(error)
                self.root, self.stored_rows = before
        self._compact_rows = self.stored_rows

    def _pour_anew(self) -> None:
        """Takes everything out, compacts it and puts it in again; leaves are dropped as they are read."""
        leaves = deque(self.root.leaves())
        frames = (leaves.popleft().frame() for _ in range(len(leaves)))
        self.root, self.stored_rows = Node(LOWEST, []), 0
        for frame in whole_groups(self._layout, frames, self._limits.leaf_rows):
            self._pour(self.root, LOWEST, of_frame(self._layout, frame))
            self._grow()

    def _grow(self) -> None:
        """Puts inner nodes between the root and its children if these are too many."""
        while len(self.root.children) > self._limits.fanout:
            self.root = Node(LOWEST, [*inner_nodes(LOWEST, self.root.children, self._limits.fanout)])

    def _shrink(self) -> None:
        """Takes out inner nodes under the root whose buffers are empty and whose children are few in all."""
        while nodes := [child for child in self.root.children if isinstance(child, Node)]:
            below = [child for node in nodes for child in node.children]
            if len(below) > self._limits.fanout // 2 or any(node.fragments for node in nodes):
                break
            for node in nodes:  # the first child's own begins where its node's does, or with its pane
                first = node.children[0]
                first.low = node.low if isinstance(first, Node) else max(node.low, (first.pane, 0))
            self.root = Node(LOWEST, below)

    def _pour(self, node: Node, low: Bound, batches: list[Batch]) -> None:
        """Deals one block's batches to a node's children, which may be more than the fan-out allows then."""
        news: list[_News] = []
        for batch in batches:
            children: list[Child] = []
            for child, start, part in self._dealt(node, low, batch):
                if part is not None:
                    children += self._give(child, start, part, news)
                elif child is not None:
                    children.append(child)
            node.children = children
        self._add(news)
        self._split_children(node)
        if self._spilling:
            self._merge_ripe(node, self._spilling)
            self._spilling.make_room(self.root)

    def _give(self, child: Child | None, low: Bound, part: Batch, news: list[_News]) -> Sequence[Child]:
        """Gives a child its part of a batch; returns the child, and a new leaf beside it if it is of another pane."""
        if isinstance(child, Node):
            self._receive(child, low, part)
            return [child]
        leaf = child
        if leaf is None or leaf.pane != part.pane:
            leaf = Leaf(self._layout, part.pane, max(low, (part.pane, 0)))
        if isinstance(leaf, SpilledLeaf):
            leaf.add(part.frame(self._layout))
            self.stored_rows += len(part)
        else:
            self._fold(leaf, part, news)
        if child is None or child is leaf:
            return [leaf]
        return [leaf, child] if child.pane > leaf.pane else [child, leaf]

    def _fold(self, leaf: Leaf, part: Batch, news: list[_News]) -> None:
        leaf.touched = self._changes
        fresh, at = leaf.fold(part)
        if len(fresh):
            news.append(_News(leaf, part, fresh, at))

    def _dealt(self, node: Node, low: Bound, batch: Batch) -> Iterator[tuple[Child | None, Bound, Batch | None]]:
        """Each child with where its range begins and its part of the batch, if it has any."""
        if not node.children:
            yield None, low, batch
            return
        separators = node.separators
        first = bisect_left(separators, (batch.pane, 0))
        last = bisect_left(separators, (batch.pane + 1, 0))
        inside = np.array([separator[1] for separator in separators[first:last]], dtype=np.uint64)
        cuts = [0, *np.searchsorted(batch.hashes, inside).tolist(), len(batch)]
        for index, child in enumerate(node.children):
            start = separators[index - 1] if index else low
            part = None
            if first <= index <= last and cuts[index - first] < cuts[index - first + 1]:
                part = batch.part(cuts[index - first], cuts[index - first + 1])
            yield child, start, part

    def _add(self, news: list[_News]) -> None:
        """Adds new keys to their leaves. All are fetched together: one call on columns has its price."""
        if not news:
            return
        rows = np.concatenate([new.part.rows[new.rows] for new in news])
        encoded = EncodedKeys.of(news[0].part.keys[rows.astype(np.uint32)])
        self.stored_rows += len(rows)
        start = 0
        for new in news:
            end = start + len(new.rows)
            new.leaf.add(new.part, new.rows, new.at, encoded.part(start, end))
            start = end

    def _split_children(self, node: Node) -> None:
        node.children = [piece for child in node.children for piece in self._split(child)]

    def _merge_ripe(self, node: Node, spilling: Spilling) -> None:
        """Reads the leaves among the children to which much has come while they were on disk, one at a time."""
        rows_min, bytes_min = self._limits.leaf_rows // _RIPE_SHARE, LEAF_BYTES // _RIPE_SHARE
        for child in node.children:
            if isinstance(child, SpilledLeaf) and child.is_ripe(rows_min, bytes_min):
                try:
                    rows = child.read()
                except SpillError as error:
                    spilling.failure = str(error)
                    continue
                node.replace(child, self._split(self._merged(child, rows)))
                spilling.make_room(self.root)

    def _merged(self, spilled: SpilledLeaf, rows: pl.DataFrame) -> Leaf:
        leaf, news = Leaf(self._layout, spilled.pane, spilled.low), list[_News]()
        for batch in of_frame(self._layout, rows):
            self._fold(leaf, batch, news)
        self.stored_rows -= len(spilled)
        self._add(news)
        return leaf

    def _split(self, child: Child) -> Sequence[Child]:
        """The child, or what stands in its place if it is over-full."""
        _, fanout, leaf_rows = self._limits
        if isinstance(child, SpilledLeaf):
            return [child]
        if isinstance(child, Node):
            return [child] if len(child.children) <= fanout else inner_nodes(child.low, child.children, fanout)
        if len(child) <= leaf_rows and child.key_bytes <= LEAF_BYTES:
            return [child]
        pieces = child.split(max(1, leaf_rows // _PARTS), LEAF_BYTES // _PARTS)
        for piece in pieces:
            piece.touched = child.touched
        return pieces

    def _receive(self, node: Node, low: Bound, part: Batch) -> None:
        """Appends a fragment to an inner node's buffer, or empties that if it would be over-full.

        A node that is about to be split gets nothing into its buffer any more.
        """
        buffer_rows, fanout, _ = self._limits
        frame = part.frame(self._layout)
        rows, raw_bytes = node.rows + frame.height, node.raw_bytes + frame.estimated_size()
        if rows <= buffer_rows and raw_bytes <= BUFFER_BYTES and len(node.children) <= fanout:
            node.fragments.append(Fragment.pack(frame))
            self.stored_rows += frame.height
        else:
            self._empty_buffer(node, low, [frame])

    def _empty_buffer(self, node: Node, low: Bound, more: list[pl.DataFrame]) -> None:
        """Merges the buffer's fragments and pours them to the node's children."""
        frames = [*node.read(self._layout, EVERY_PANE), *more]
        self.stored_rows -= node.rows
        node.fragments = []
        if frames:
            self._pour(node, low, of_frame(self._layout, pl.concat(frames)))

    def _settle(self, node: Node, low: Bound) -> None:
        """Empties all buffers below a node."""
        for index, child in enumerate(node.children):
            if isinstance(child, Node):
                start = child.low if index else low
                self._empty_buffer(child, start, [])
                self._settle(child, start)
        self._split_children(node)
