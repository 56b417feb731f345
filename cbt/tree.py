"""The compressed buffer tree of the paper's section 2.2 and Figure 5, on columns.

New values are only appended to the root's buffer. When that is full it is sorted by (pane, key hash),
aggregated and cut at the hash ranges of the root's children. An inner node compresses its fragment and appends it
to its buffer, unread; when that is full in turn it is decompressed, merged, aggregated and emptied one level down.
A leaf finds the keys it has by binary search and merges their states in place; only keys that are new to it are
written, compressed, and not read again until the leaf is flushed or split. A full leaf is split into several, an
inner node with more children than the fan-out allows as well. So an event costs one sort in the processor's cache
and a share of sequential work in large chunks, and keys are held compressed.

Where this departs from the original: the hash that orders keys has 64 bits, and a second one tells keys apart that
share it; leaves aggregate eagerly, so that memory follows unique keys and not events; reading loses nothing; one
tree holds all open panes of a job; buffers are exactly as large as what is in them.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from cbt.batch import Batch, of_frame
from cbt.columns import Aggregate, Key
from cbt.fragment import EVERY_PANE, LOWEST, Bound, Fragment, panes_of
from cbt.identities import Rows
from cbt.invariants import check_tree
from cbt.key_store import EncodedKeys
from cbt.layout import Layout
from cbt.leaf import Leaf
from cbt.node import Node, inner_nodes
from cbt.root_buffer import RootBuffer
from cbt.user_defined import UserFunctions
from cbt.whole_groups import whole_groups

_BUFFER_BYTES = 2**26  # rows bound the buffers of ordinary keys, these bytes those of huge ones
_LEAF_BYTES = 2**24
_ROOT_ROWS = 2**18
_ROOT_SHARE = 8
_COMPACT_ROWS = 2**15
_PARTS = 2  # a full leaf is split into so many


@dataclass(frozen=True, slots=True)
class TreeStatistics:
    """A tree's size. `compressed_bytes` holds what would take `raw_bytes` as columns; the root buffer is
    neither.
    """

    buffered_rows: int
    stored_rows: int
    levels: int
    nodes: int
    leaves: int
    fragments: int
    raw_bytes: int
    compressed_bytes: int


class _News(NamedTuple):
    """Rows of a batch with keys that are new to a leaf, and where they belong in it."""

    leaf: Leaf
    part: Batch
    rows: Rows
    at: Rows


class CompressedBufferTree:
    """Groups and aggregates rows by (pane, key), lazily and in bounded, compressed buffers.

    `keys`, `aggregates` and `functions` are as in `Layout`. An inner node's buffer is full above `buffer_rows` PAOs,
    the root's with an eighth of what is below it, but with no more than `buffer_rows`; a leaf is full above `leaf_rows`
    keys. Inner nodes have at most `fanout` children. Raises ValueError for limits that are too small.

    >>> tree = CompressedBufferTree([Key("page", "string")], [Aggregate("hits", "count", None, "any")])
    >>> tree.insert(pl.DataFrame({"pane": [0, 0, 30_000], "page": ["/a", "/b", "/a"]}))
    >>> tree.insert(pl.DataFrame({"pane": [0], "page": ["/a"]}))
    >>> [(pane, page, hits) for frame in tree.flush() for pane, page, hits in tree.layout.lower(frame).rows()]
    [(0, '/a', 2), (0, '/b', 1), (30000, '/a', 1)]
    """

    def __init__(
        self,
        keys: Sequence[Key],
        aggregates: Sequence[Aggregate],
        *,
        seed: int = 0,
        functions: UserFunctions | None = None,
        buffer_rows: int = 2**19,
        fanout: int = 256,
        leaf_rows: int = 2**16,
    ) -> None:
        if buffer_rows < 1 or leaf_rows < 2 or fanout < 2:
            raise ValueError("a tree needs buffer_rows >= 1, leaf_rows >= 2 and fanout >= 2")
        self.layout = Layout(keys, aggregates, seed, functions)
        self.buffer_rows, self.fanout, self.leaf_rows = buffer_rows, fanout, leaf_rows
        self._buffer = RootBuffer(self.layout)
        self._root = Node(LOWEST, [])
        self._stored_rows = 0
        self._compact_rows = 0
        """How many were stored when sketches were compacted last; they are again when there are twice as many."""
        self._changes = 0

    def insert(self, frame: pl.DataFrame) -> None:
        """Adds a frame of raw rows: `pane` Int64, and the key and argument columns in any physical form of
        their types.

        Other columns are ignored. Amortised O(n · levels) for n rows; often just an append. Raises ValueError for a
        frame without these columns.

        >>> tree = CompressedBufferTree([], [Aggregate("total", "sum", "price", "number")])
        >>> tree.insert(pl.DataFrame({"pane": [0, 0], "price": [1, 2]}))
        >>> tree.insert(pl.DataFrame({"pane": [0], "price": [0.5]}))
        >>> [tree.layout.lower(frame)["total"].to_list() for frame in tree.flush()]
        [[3.5]]
        """
        self.layout.check_input(frame)
        self._changes += 1
        self._buffer.append(frame)
        full = min(self.buffer_rows, max(_ROOT_ROWS, self._stored_rows // _ROOT_SHARE))
        if self._buffer.rows >= full or self._buffer.memory_bytes >= _BUFFER_BYTES:
            self._empty_root_buffer()

    def flush(self, pane: int | None = None, *, upto: int | None = None) -> Iterator[pl.DataFrame]:
        """The PAO frames of all panes, of one, or of those up to one, ordered by (pane, hash, keys).

        Each has at most `leaf_rows` rows, and about 16 MiB if the keys are not of very different lengths. Where
        aggregates are sets or sketches, no group is parted, and frames of many items may be larger.

        Every key of a pane appears in exactly one row, or one group of rows. The state stays: a flush does not change
        what later ones yield. O(n) for n stored PAOs of the panes asked for, after what is in buffers has gone down;
        one leaf is decompressed at a time. Panes of which nothing but raw rows has come are aggregated where they are.
        The iterator raises RuntimeError once the tree was changed.

        >>> tree = CompressedBufferTree([Key("page", "string")], [Aggregate("hits", "count", None, "any")])
        >>> tree.insert(pl.DataFrame({"pane": [0, 60_000], "page": ["/a", "/a"]}))
        >>> [frame["pane"].to_list() for frame in tree.flush(60_000)]
        [[60000]]
        """
        panes = panes_of(pane, upto)
        if not self._root.holds(panes):
            return self._scan(self._buffer.lifted(panes), self._changes)
        self._empty_root_buffer()
        self._settle(self._root, LOWEST)
        self._grow()
        leaves = (leaf.frame() for leaf in self._root.leaves() if panes[0] <= leaf.pane <= panes[1])
        return self._scan(leaves, self._changes)

    def empty(self, pane: int | None = None, *, upto: int | None = None) -> None:
        """Forgets everything, one pane, or all up to one. O(1), or O(nodes + n) for n rows in buffers that the
        panes touch.

        >>> tree = CompressedBufferTree([], [Aggregate("hits", "count", None, "any")])
        >>> tree.insert(pl.DataFrame({"pane": [0, 60_000]}))
        >>> tree.empty(0)
        >>> [frame["pane"].to_list() for frame in tree.flush()]
        [[60000]]
        """
        self._changes += 1
        panes = panes_of(pane, upto)
        if panes == EVERY_PANE:
            self._buffer.clear()
            self._root, self._stored_rows, self._compact_rows = Node(LOWEST, []), 0, 0
            return
        self._buffer.forget(panes)
        orphans = self._root.forget(self.layout, panes)
        if not self._root.children:
            self._root = Node(LOWEST, [])
        for frame in orphans:
            self._pour(self._root, LOWEST, of_frame(self.layout, frame))
        self._grow()
        self._stored_rows = self.statistics().stored_rows
        self._compact_rows = min(self._compact_rows, self._stored_rows)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns in the root buffer, of the compressed fragments and of the leaves. O(nodes).

        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")]).memory_bytes
        0
        """
        fragments = sum(len(fragment.data) for node in self._root.walk() for fragment in node.fragments)
        return self._buffer.memory_bytes + fragments + sum(leaf.nbytes for leaf in self._root.leaves())

    def statistics(self) -> TreeStatistics:
        """How large and how deep the tree is. O(nodes).

        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")]).statistics().leaves
        0
        """
        nodes, leaves = list(self._root.walk()), list(self._root.leaves())
        fragments = [fragment for node in nodes for fragment in node.fragments]
        return TreeStatistics(
            buffered_rows=self._buffer.rows,
            stored_rows=sum(fragment.rows for fragment in fragments) + sum(map(len, leaves)),
            levels=_levels(self._root),
            nodes=len(nodes) + len(leaves),
            leaves=len(leaves),
            fragments=len(fragments),
            raw_bytes=sum(fragment.raw_bytes for fragment in fragments) + sum(leaf.raw_bytes for leaf in leaves),
            compressed_bytes=sum(len(fragment.data) for fragment in fragments) + sum(leaf.nbytes for leaf in leaves),
        )

    def check(self) -> None:
        """Asserts every invariant of the tree; for tests. Decompresses everything."""
        assert self._buffer.rows < self.buffer_rows, "the root's buffer is not full"
        check_tree(self._root, self.layout, self.buffer_rows, self.fanout, self.leaf_rows)

    # Going down.

    def _empty_root_buffer(self) -> None:
        for batches in self._buffer.drain():
            self._pour(self._root, LOWEST, batches)
            self._grow()
            if self.layout.shrinks and self._stored_rows >= 2 * max(self._compact_rows, _COMPACT_ROWS):
                self._compact()

    def _compact(self) -> None:
        """Shrinks all sketches: what a block brought was compacted for itself alone."""
        self._settle(self._root, LOWEST)
        leaves = deque(self._root.leaves())
        frames = (leaves.popleft().frame() for _ in range(len(leaves)))
        self._root, self._stored_rows = Node(LOWEST, []), 0
        for frame in whole_groups(self.layout, frames, self.leaf_rows):
            self._pour(self._root, LOWEST, of_frame(self.layout, frame))
            self._grow()
        self._compact_rows = self._stored_rows

    def _grow(self) -> None:
        """Puts inner nodes between the root and its children if these are too many."""
        while len(self._root.children) > self.fanout:
            self._root = Node(LOWEST, [*inner_nodes(LOWEST, self._root.children, self.fanout)])

    def _pour(self, node: Node, low: Bound, batches: list[Batch]) -> None:
        """Deals one block's batches to a node's children, which may be more than the fan-out allows then."""
        news: list[_News] = []
        for batch in batches:
            children: list[Node | Leaf] = []
            for child, start, part in self._dealt(node, low, batch):
                if part is not None:
                    children += self._give(child, start, part, news)
                elif child is not None:
                    children.append(child)
            node.children = children
        self._add(news)
        node.children = [piece for child in node.children for piece in self._split(child)]

    def _give(self, child: Node | Leaf | None, low: Bound, part: Batch, news: list[_News]) -> Sequence[Node | Leaf]:
        """Gives a child its part of a batch; returns the child, and a new leaf beside it if it is of another pane."""
        if isinstance(child, Node):
            return self._receive(child, low, part)
        leaf = child
        if leaf is None or leaf.pane != part.pane:
            leaf = Leaf(self.layout, part.pane, max(low, (part.pane, 0)))
        fresh, at = leaf.fold(part)
        if len(fresh):
            news.append(_News(leaf, part, fresh, at))
        if child is None or child is leaf:
            return [leaf]
        return [leaf, child] if child.pane > leaf.pane else [child, leaf]

    def _dealt(self, node: Node, low: Bound, batch: Batch) -> Iterator[tuple[Node | Leaf | None, Bound, Batch | None]]:
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
        self._stored_rows += len(rows)
        start = 0
        for new in news:
            end = start + len(new.rows)
            new.leaf.add(new.part, new.rows, new.at, encoded.part(start, end))
            start = end

    def _split(self, child: Node | Leaf) -> Sequence[Node | Leaf]:
        """The child, or what stands in its place if it is over-full."""
        if isinstance(child, Node):
            return (
                [child] if len(child.children) <= self.fanout else inner_nodes(child.low, child.children, self.fanout)
            )
        if len(child) <= self.leaf_rows and child.key_bytes <= _LEAF_BYTES:
            return [child]
        return child.split(max(1, self.leaf_rows // _PARTS), _LEAF_BYTES // _PARTS)

    def _receive(self, node: Node, low: Bound, part: Batch) -> Sequence[Node | Leaf]:
        """Appends a fragment to an inner node's buffer, or empties that if it would be over-full.

        Returns the nodes to stand in the node's place.
        """
        frame = part.frame(self.layout)
        if node.rows + frame.height <= self.buffer_rows and node.raw_bytes + frame.estimated_size() <= _BUFFER_BYTES:
            node.fragments.append(Fragment.pack(frame))
            self._stored_rows += frame.height
            return [node]
        self._empty_buffer(node, low, [frame])
        return self._split(node)

    def _empty_buffer(self, node: Node, low: Bound, more: list[pl.DataFrame]) -> None:
        """Merges the buffer's fragments and pours them to the node's children."""
        frames = [*node.read(self.layout, EVERY_PANE), *more]
        self._stored_rows -= node.rows
        node.fragments = []
        if frames:
            self._pour(node, low, of_frame(self.layout, pl.concat(frames)))

    def _settle(self, node: Node, low: Bound) -> None:
        """Empties all buffers below a node."""
        children: list[Node | Leaf] = []
        for index, child in enumerate(node.children):
            if isinstance(child, Node):
                start = child.low if index else low
                self._empty_buffer(child, start, [])
                self._settle(child, start)
            children += self._split(child)
        node.children = children

    def _scan(self, frames: Iterable[pl.DataFrame], changes: int) -> Iterator[pl.DataFrame]:
        self._check_unchanged(changes)
        if self.layout.has_items:
            for frame in whole_groups(self.layout, frames, self.leaf_rows):
                yield frame
                self._check_unchanged(changes)
            return
        for frame in frames:
            fitting = frame.height * _LEAF_BYTES // max(1, int(frame.estimated_size()))
            for piece in frame.iter_slices(max(1, min(self.leaf_rows, fitting))):
                yield piece
                self._check_unchanged(changes)

    def _check_unchanged(self, changes: int) -> None:
        if changes != self._changes:
            raise RuntimeError("the tree was changed while it was being flushed")


def _levels(node: Node) -> int:
    below = node.children[0] if node.children else None
    return 1 + (_levels(below) if isinstance(below, Node) else int(below is not None))
