"""The compressed buffer tree of the paper's section 2.2 and Figure 5, on columns.

New values are only appended to the root's buffer. When that is full it is sorted by (pane, key hash) and
aggregated; if keys do not repeat enough to make room, it is cut at the hash ranges of the root's children,
and each fragment is compressed and appended to its child's buffer, unread. A child whose buffer is full in
turn has it decompressed, merged, aggregated and emptied one level down. A full leaf is split at its median
and the new leaf added to its parent; an internal node with more children than the fan-out allows is split as
well. So an event costs one pass of a group-by and a share of sequential work in large chunks, and past state
is held compressed.

Where this departs from the original: the key hash has 64 bits and equal hashes are told apart by their keys;
reading leaves the tree as it is; one tree holds all open panes of a job; buffers are exactly as large as what
is in them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from cbt.columns import Aggregate, Key
from cbt.fragment import EVERY_PANE, LOWEST, Fragment, Panes, cut, of_panes, panes_of, without_panes
from cbt.invariants import check_tree
from cbt.layout import Layout
from cbt.node import Node, merge, split_internal, split_leaf
from cbt.root_buffer import RootBuffer

_BUFFER_BYTES = 2**26  # rows bound the buffers of ordinary keys, these bytes those of huge ones
_LEAF_BYTES = 2**24


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


class CompressedBufferTree:
    """Groups and aggregates rows by (pane, key), lazily and in bounded, compressed buffers.

    `keys` and `aggregates` are as in `Layout`. The root's and each internal node's buffer is full above
    `buffer_rows` PAOs, a leaf above `leaf_rows`; internal nodes have at most `fanout` children. Raises
    ValueError for limits that are too small.

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
        buffer_rows: int = 2**18,
        fanout: int = 16,
        leaf_rows: int = 2**15,
    ) -> None:
        if buffer_rows < 1 or leaf_rows < 2 or fanout < 2:
            raise ValueError("a tree needs buffer_rows >= 1, leaf_rows >= 2 and fanout >= 2")
        self.layout = Layout(keys, aggregates, seed)
        self.buffer_rows, self.fanout, self.leaf_rows = buffer_rows, fanout, leaf_rows
        self._buffer = RootBuffer(self.layout, buffer_rows)
        self._root = _sapling()
        self._changes = 0

    def insert(self, frame: pl.DataFrame) -> None:
        """Adds a frame of raw rows: `pane` Int64, and the key and argument columns in any physical form of
        their types.

        Other columns are ignored. Amortised O(n · levels) for n rows, mostly one group-by; often just an
        append. Raises ValueError for a frame without these columns.

        >>> tree = CompressedBufferTree([], [Aggregate("total", "sum", "price", "number")])
        >>> tree.insert(pl.DataFrame({"pane": [0, 0], "price": [1, 2]}))
        >>> tree.insert(pl.DataFrame({"pane": [0], "price": [0.5]}))
        >>> [tree.layout.lower(frame)["total"].to_list() for frame in tree.flush()]
        [[3.5]]
        """
        self.layout.check_input(frame)
        self._changes += 1
        self._buffer.append(frame)
        if self._buffer.rows >= self.buffer_rows or self._buffer.memory_bytes >= _BUFFER_BYTES:
            self._empty_root_buffer()

    def flush(self, pane: int | None = None, *, upto: int | None = None) -> Iterator[pl.DataFrame]:
        """The PAO frames of all panes, of one, or of those up to one, ordered by (pane, hash, keys).

        Each has at most `leaf_rows` rows, and about 16 MiB if the keys are not of very different lengths.

        Every key of a pane appears in exactly one row. The state stays: a flush does not change what later
        ones yield. O(n log n) for n stored PAOs of the panes asked for; one path's buffers are decompressed
        at a time. The iterator raises RuntimeError once the tree was changed.

        >>> tree = CompressedBufferTree([Key("page", "string")], [Aggregate("hits", "count", None, "any")])
        >>> tree.insert(pl.DataFrame({"pane": [0, 60_000], "page": ["/a", "/a"]}))
        >>> [frame["pane"].to_list() for frame in tree.flush(60_000)]
        [[60000]]
        """
        panes = panes_of(pane, upto)
        return self._scan(self._root, of_panes(self._buffer.merged(), panes), panes, self._changes)

    def empty(self, pane: int | None = None, *, upto: int | None = None) -> None:
        """Forgets everything, one pane, or all up to one. O(1), or O(n) for n PAOs in buffers that the panes touch.

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
            self._root = _sapling()
            return
        self._buffer.replace(without_panes(self._buffer.merged(), panes))
        self._root.forget(self.layout, panes)
        if self._root.is_empty:
            self._root = _sapling()

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns in the root buffer and of the compressed fragments. O(nodes).

        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")]).memory_bytes
        0
        """
        return self._buffer.memory_bytes + sum(len(fragment.data) for fragment in self._fragments())

    def statistics(self) -> TreeStatistics:
        """How large and how deep the tree is. O(nodes).

        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")]).statistics().leaves
        1
        """
        nodes = list(self._root.walk())
        fragments = list(self._fragments())
        levels, node = 1, self._root
        while node.children:
            levels, node = levels + 1, node.children[0]
        return TreeStatistics(
            buffered_rows=self._buffer.rows,
            stored_rows=sum(fragment.rows for fragment in fragments),
            levels=levels,
            nodes=len(nodes),
            leaves=sum(node.is_leaf for node in nodes),
            fragments=len(fragments),
            raw_bytes=sum(fragment.raw_bytes for fragment in fragments),
            compressed_bytes=sum(len(fragment.data) for fragment in fragments),
        )

    def check(self) -> None:
        """Asserts every invariant of the tree; for tests. Decompresses everything."""
        # A flush groups the raw rows that wait, fewer than a buffer; the next insert then empties the buffer.
        assert self._buffer.rows < 2 * self.buffer_rows, "the root's buffer is not over-full"
        check_tree(self._root, self.layout, self.buffer_rows, self.fanout, self.leaf_rows)

    def _fragments(self) -> Iterator[Fragment]:
        for node in self._root.walk():
            yield from node.fragments

    def _empty_root_buffer(self) -> None:
        """Aggregates the root's buffer; what is still more than half of it goes down to the children."""
        merged = self._buffer.merged()
        if merged.height <= self.buffer_rows // 2 and merged.estimated_size() <= _BUFFER_BYTES // 2:
            return
        self._buffer.clear()
        nodes = self._pour(self._root, merged)
        while len(nodes) > 1:
            nodes = split_internal(LOWEST, nodes, self.fanout)
        self._root = nodes[0]

    def _pour(self, node: Node, frame: pl.DataFrame) -> list[Node]:
        """Deals a sorted frame to an internal node's children. Returns the nodes to stand in its place:
        itself, or its parts.
        """
        pieces = list(cut(frame, node.separators))
        children: list[Node] = []
        for child, piece in zip(node.children, pieces, strict=True):
            children += self._receive(child, piece) if piece.height else [child]
        return split_internal(node.low, children, self.fanout)

    def _receive(self, node: Node, piece: pl.DataFrame) -> list[Node]:
        """Appends a fragment to a node's buffer, or empties that if it would be over-full.

        Returns the nodes to stand in the node's place.
        """
        rows_max, bytes_max = (self.leaf_rows, _LEAF_BYTES) if node.is_leaf else (self.buffer_rows, _BUFFER_BYTES)
        if node.rows + piece.height <= rows_max and node.raw_bytes + piece.estimated_size() <= bytes_max:
            node.fragments.append(Fragment.pack(piece))
            return [node]
        merged = merge(self.layout, [*node.read(self.layout, EVERY_PANE), piece])
        node.fragments = []
        if node.is_leaf:
            return split_leaf(node.low, merged, self.leaf_rows // 2, _LEAF_BYTES // 2)
        return self._pour(node, merged)

    def _scan(self, node: Node, above: pl.DataFrame, panes: Panes, changes: int) -> Iterator[pl.DataFrame]:
        """Yields a subtree in order. `above` holds what its ancestors' buffers have for it, merged."""
        merged = merge(self.layout, [above, *node.read(self.layout, panes)])
        if node.is_leaf:
            fitting = merged.height * _LEAF_BYTES // max(1, int(merged.estimated_size()))
            for piece in merged.iter_slices(max(1, min(self.leaf_rows, fitting))):
                if changes != self._changes:
                    raise RuntimeError("the tree was changed while it was being flushed")
                if piece.height:
                    yield piece
            return
        for child, part in zip(node.children, cut(merged, node.separators), strict=True):
            yield from self._scan(child, part, panes, changes)


def _sapling() -> Node:
    """The smallest tree below a root buffer: a root with one leaf."""
    return Node(LOWEST, children=[Node(LOWEST)])
