"""The interior of a compressed buffer tree, below the root's buffer: pushes batches down inner nodes into leaves."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from cbt.layout.layout import Layout
from cbt.layout.whole_groups import whole_groups
from cbt.tree.batch import RowBatch, of_frame
from cbt.tree.fragment import EVERY_PANE, LOWEST, Bound, Fragment, Panes
from cbt.tree.invariants import check_tree
from cbt.tree.key_store import KeyCoder
from cbt.tree.leaf import Leaf, NewKeys, Part, merge
from cbt.tree.node import BufferNode, Child, inner_nodes
from cbt.tree.spill_files import DiskQuota, SpillError, SpillFiles
from cbt.tree.spilled_leaf import SpilledLeaf


class Spilling:
    """Moves leaves, and rows that came late to leaves on disk, to files under `directory` once a tree's interior holds
    more than `limit_bytes`. Raises SpillError if it cannot write there. All files count towards the `quota`.

    A file that cannot be written or read costs no row that is in memory: `failure` says why, and the tree goes on.
    """

    def __init__(self, layout: Layout, limit_bytes: int, directory: Path, quota: DiskQuota | None = None) -> None:
        self.failure: str | None = None
        self._layout = layout
        self._limit_bytes = limit_bytes
        self._files = SpillFiles(directory, quota)

    def is_short(self, root: BufferNode) -> bool:
        """Whether more bytes are in memory than the limit allows. O(nodes)."""
        return self.failure is None and root.nbytes > self._limit_bytes

    @property
    def is_on_disk(self) -> bool:
        """Whether anything is on disk. O(1)."""
        return not self._files.is_empty

    def make_room(self, root: BufferNode) -> None:
        """Spills as much as necessary: leaves, least recently touched first, then late rows. O(nodes + bytes)."""
        try:
            self._spill_late(root, self._spill_leaves(root, root.nbytes - self._limit_bytes))
        except SpillError as error:
            self.failure = str(error)

    def spill_all(self, root: BufferNode) -> bool:
        """Moves every leaf to disk. Returns whether the disk has taken them. O(bytes)."""
        try:
            self._spill_leaves(root, root.nbytes)
        except SpillError as error:
            self.failure = str(error)
            return False
        return True

    def close(self) -> None:
        self._files.close()

    def _spill_leaves(self, root: BufferNode, excess: int) -> int:
        """Spills leaves until `excess` bytes are freed. Returns the bytes that are still too many."""
        if excess <= 0:
            return 0
        homes = {leaf: node for node in root.walk() for leaf in node.children if isinstance(leaf, Leaf)}
        for leaf in sorted(homes, key=attrgetter("touched")):
            if excess <= 0:
                break
            excess -= leaf.nbytes
            homes[leaf].replace(leaf, [SpilledLeaf(self._layout, leaf, self._files)])
        return excess

    def _spill_late(self, root: BufferNode, excess: int) -> None:
        if excess <= 0:
            return
        spilled = [leaf for leaf in root.leaves() if isinstance(leaf, SpilledLeaf) and leaf.nbytes]
        for leaf in sorted(spilled, key=attrgetter("nbytes"), reverse=True):
            if excess <= 0:
                break
            excess -= leaf.nbytes
            leaf.write_late(self._files)


BUFFER_BYTES = 2**26  # rows bound the buffers of ordinary keys, bytes those of huge keys
LEAF_BYTES = 2**24
_COMPACT_ROWS = 2**15
_PARTS = 4  # parts that a full leaf is split into
_DUE_SHARE = 32  # late rows that make a leaf on disk due for merging, as a share of a full leaf


class TreeLimits(NamedTuple):
    """Upper bounds on the PAOs of a buffer, the children of a node and the keys of a leaf."""

    buffer_rows: int
    fanout: int
    leaf_rows: int


class Interior:
    """Takes batches, and holds their PAOs in leaves and, above these, in inner nodes' buffers."""

    def __init__(self, layout: Layout, limits: TreeLimits, spilling: Spilling | None) -> None:
        self.root = BufferNode(LOWEST, [])
        self.stored_rows = 0
        self._layout = layout
        self._limits = limits
        self._compact_rows = 0
        """Rows stored when sketches were last compacted; they are compacted again at twice as many."""
        self._spilling = spilling
        self._coder = KeyCoder()
        self._changes = 0

    def add(self, batches: list[RowBatch]) -> None:
        """Adds one block's batches. Amortised O(n · levels)."""
        self._changes += 1
        self._push_down(self.root, LOWEST, batches)
        self._grow()
        if self._layout.shrinks and self.stored_rows >= 2 * max(self._compact_rows, _COMPACT_ROWS):
            self._compact()
        if self._spilling and self._spilling.is_short(self.root):
            self.empty_buffers()

    def empty_buffers(self) -> None:
        """Empties all buffers: every PAO is in a leaf then. O(n) for n PAOs in buffers."""
        self._empty_buffers(self.root, LOWEST)
        self._grow()
        self._shrink()
        if self._spilling:
            self._spilling.make_room(self.root)

    def forget(self, panes: Panes) -> None:
        """Drops the rows of some panes. O(nodes + n) for n rows in buffers that the panes touch."""
        orphans = self.root.forget(self._layout, panes)
        if not self.root.children:
            self.root = BufferNode(LOWEST, [])
        for frame in orphans:
            self._push_down(self.root, LOWEST, of_frame(self._layout, frame))
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
        """Compacts all sketches as wholes: the states of each block were compacted by themselves."""
        self.empty_buffers()
        if self._spilling is None:
            self._rebuild()
        elif self._spilling.spill_all(self.root):
            before = self.root, self.stored_rows
            try:
                self._rebuild()
            except SpillError as error:
                self._spilling.failure = str(error)
                self.root, self.stored_rows = before
        self._compact_rows = self.stored_rows

    def _rebuild(self) -> None:
        """Rebuilds the interior from its compacted content; leaves are dropped as they are read."""
        leaves = deque(self.root.leaves())
        frames = (leaves.popleft().frame() for _ in range(len(leaves)))
        self.root, self.stored_rows = BufferNode(LOWEST, []), 0
        for frame in whole_groups(self._layout, frames, self._limits.leaf_rows):
            self._push_down(self.root, LOWEST, of_frame(self._layout, frame))
            self._grow()

    def _grow(self) -> None:
        """Puts inner nodes between the root and its children while the root has too many."""
        while len(self.root.children) > self._limits.fanout:
            self.root = BufferNode(LOWEST, [*inner_nodes(LOWEST, self.root.children, self._limits.fanout)])

    def _shrink(self) -> None:
        """Removes the inner nodes under the root while their buffers are empty and they have few children in all."""
        while nodes := [child for child in self.root.children if isinstance(child, BufferNode)]:
            below = [child for node in nodes for child in node.children]
            if len(below) > self._limits.fanout // 2 or any(node.fragments for node in nodes):
                break
            for node in nodes:  # the first child's range begins where its node's does, or with its pane
                first = node.children[0]
                first.low = node.low if isinstance(first, BufferNode) else max(node.low, (first.pane, 0))
            self.root = BufferNode(LOWEST, below)

    def _push_down(self, node: BufferNode, low: Bound, batches: list[RowBatch]) -> None:
        """Partitions one block's batches among a node's children, which may then exceed the fan-out."""
        new_keys: list[NewKeys] = []
        for batch in batches:
            children: list[Child] = []
            parts: list[Part] = []
            for child, begin, start, end in self._partition(node, low, batch):
                if start < end:
                    children += self._deliver(child, begin, batch, start, end, parts)
                elif child is not None:
                    children.append(child)
            node.children = children
            new_keys += self._merge(batch, parts)
        self._add(new_keys)
        self._split_children(node)
        if self._spilling:
            self._merge_due(node, self._spilling)
            self._spilling.make_room(self.root)

    def _deliver(
        self, child: Child | None, low: Bound, batch: RowBatch, start: int, end: int, parts: list[Part]
    ) -> Sequence[Child]:
        """Delivers to a child its rows of a batch, those of a leaf by way of `parts`; returns the child, and a new leaf
        beside it for another pane."""
        if isinstance(child, BufferNode):
            self._receive(child, low, batch.part(start, end))
            return [child]
        leaf = child
        if leaf is None or leaf.pane != batch.pane:
            leaf = Leaf(self._layout, batch.pane, max(low, (batch.pane, 0)), self._coder)
        if isinstance(leaf, SpilledLeaf):
            leaf.add(batch.part(start, end).frame(self._layout))
            self.stored_rows += end - start
        else:
            leaf.touched = self._changes
            parts.append(Part(leaf, start, end))
        if child is None or child is leaf:
            return [leaf]
        return [leaf, child] if child.pane > leaf.pane else [child, leaf]

    def _partition(
        self, node: BufferNode, low: Bound, batch: RowBatch
    ) -> Iterator[tuple[Child | None, Bound, int, int]]:  # fmt: skip
        """Each child, the begin of its range, and where its rows of the batch begin and end."""
        if not node.children:
            yield None, low, 0, len(batch)
            return
        separators = node.separators
        first = bisect_left(separators, (batch.pane, 0))
        last = bisect_left(separators, (batch.pane + 1, 0))
        inside = np.array([separator[1] for separator in separators[first:last]], dtype=np.uint64)
        cuts = [0, *np.searchsorted(batch.hashes, inside).tolist(), len(batch)]
        for index, child in enumerate(node.children):
            begin = separators[index - 1] if index else low
            is_inside = first <= index <= last
            yield child, begin, *(cuts[index - first : index - first + 2] if is_inside else (0, 0))

    def _merge(self, batch: RowBatch, parts: Sequence[Part]) -> list[NewKeys]:
        """Merges a batch into leaves. Returns the keys that are left to be added."""
        merged = merge(batch, parts, self._limits.leaf_rows)
        self.stored_rows += merged.added
        return merged.left

    def _add(self, new_keys: Sequence[NewKeys]) -> None:
        """Adds new keys to their leaves. Their rows are fetched in one call, since each call on columns has a fixed
        cost."""
        if not new_keys:
            return
        rows = np.concatenate([keys.batch.rows[keys.rows] for keys in new_keys])
        encoded = new_keys[0].batch.keys.encoded(rows)
        self.stored_rows += len(rows)
        start = 0
        for keys in new_keys:
            end = start + len(keys.rows)
            fits = len(keys.leaf) <= self._limits.leaf_rows
            keys.leaf.add(keys.batch, keys.rows, encoded.part(start, end), compress=fits)
            start = end

    def _split_children(self, node: BufferNode) -> None:
        node.children = [piece for child in node.children for piece in self._split(child)]

    def _merge_due(self, node: BufferNode, spilling: Spilling) -> None:
        """Merges the leaves on disk among the children to which enough rows have come, one at a time."""
        rows_min, bytes_min = self._limits.leaf_rows // _DUE_SHARE, LEAF_BYTES // _DUE_SHARE
        for child in node.children:
            if isinstance(child, SpilledLeaf) and child.due_for_merge(rows_min, bytes_min):
                try:
                    rows = child.read()
                except SpillError as error:
                    spilling.failure = str(error)
                    continue
                node.replace(child, self._split(self._merged(child, rows)))
                spilling.make_room(self.root)

    def _merged(self, spilled: SpilledLeaf, rows: pl.DataFrame) -> Leaf:
        leaf = Leaf(self._layout, spilled.pane, spilled.low, self._coder)
        leaf.touched = self._changes
        self.stored_rows -= len(spilled)
        for batch in of_frame(self._layout, rows):
            self._add(self._merge(batch, [Part(leaf, 0, len(batch))]))
        return leaf

    def _split(self, child: Child) -> Sequence[Child]:
        """The child, or the pieces that replace it if it is over-full."""
        _, fanout, leaf_rows = self._limits
        if isinstance(child, SpilledLeaf):
            return [child]
        if isinstance(child, BufferNode):
            return [child] if len(child.children) <= fanout else inner_nodes(child.low, child.children, fanout)
        if len(child) <= leaf_rows and child.key_bytes <= LEAF_BYTES:
            return [child]
        pieces = child.split(max(1, leaf_rows // _PARTS), LEAF_BYTES // _PARTS)
        for piece in pieces:
            piece.touched = child.touched
        return pieces

    def _receive(self, node: BufferNode, low: Bound, part: RowBatch) -> None:
        """Appends a fragment to an inner node's buffer, or empties the buffer if it would be over-full.

        A node that is about to be split gets nothing into its buffer.
        """
        buffer_rows, fanout, _ = self._limits
        frame = part.frame(self._layout)
        rows, raw_bytes = node.rows + frame.height, node.raw_bytes + frame.estimated_size()
        if rows <= buffer_rows and raw_bytes <= BUFFER_BYTES and len(node.children) <= fanout:
            node.fragments.append(Fragment.pack(frame))
            self.stored_rows += frame.height
        else:
            self._empty_buffer(node, low, [frame])

    def _empty_buffer(self, node: BufferNode, low: Bound, more: list[pl.DataFrame]) -> None:
        """Merges the buffer's fragments and pushes them down to the node's children."""
        frames = [*node.read(self._layout, EVERY_PANE), *more]
        self.stored_rows -= node.rows
        node.fragments = []
        if frames:
            self._push_down(node, low, of_frame(self._layout, pl.concat(frames)))

    def _empty_buffers(self, node: BufferNode, low: Bound) -> None:
        """Empties all buffers below a node."""
        for index, child in enumerate(node.children):
            if isinstance(child, BufferNode):
                start = child.low if index else low
                self._empty_buffer(child, start, [])
                self._empty_buffers(child, start)
        self._split_children(node)
