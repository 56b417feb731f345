"""The compressed buffer tree of the paper's section 2.2 and Figure 5, on columns.

New values are only appended to the root's buffer. A full root buffer is sorted by (pane, key hash), aggregated and cut
at the hash ranges of the root's children. An inner node compresses its fragment and appends it to its buffer, unread; a
full buffer is decompressed, merged, aggregated and pushed down one level. A leaf finds the keys it has by binary search
and merges their states in place; only new keys are written, compressed, and not read again until the leaf is flushed or
split. A full leaf is split, and so is an inner node with more children than the fan-out allows. An event thus costs one
sort in the processor's cache and a share of sequential work in large chunks, and keys are held compressed.

Departures from the paper: the hash that orders keys has 64 bits, and a second one tells keys apart that share it;
leaves aggregate eagerly, so that memory follows unique keys and not events; reading loses nothing; one tree holds all
open panes of a job; buffers are exactly as large as what is in them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from heapq import merge
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import overload

import polars as pl

from cbt.aggregates.user_defined import UserFunctions
from cbt.algebra.columns import Aggregate, Key
from cbt.algebra.partitions import PARTITIONS_MAX, cut
from cbt.layout.layout import Layout
from cbt.layout.whole_groups import whole_groups
from cbt.native.library import load
from cbt.tree.batch import RowBatch, of_frame
from cbt.tree.fragment import EVERY_PANE, Panes, panes_of
from cbt.tree.half import LOWER, UPPER, WHOLE, Half
from cbt.tree.interior import BUFFER_BYTES, LEAF_BYTES, Interior, Spilling, TreeLimits
from cbt.tree.node import AnyLeaf
from cbt.tree.root_buffer import RootBuffer
from cbt.tree.root_table import RootTable
from cbt.tree.snapshots import read_snapshot, write_snapshot
from cbt.tree.spill_files import DiskQuota, SpillError
from cbt.tree.spilled_leaf import SpilledLeaf

ROOT_BYTES_MAX = 2**23
"""Memory that a root has of a memory limit, unless told otherwise: larger roots hardly make an agent faster."""
_ROOT_ROWS = 2**18
_FRAMES_AHEAD = 4  # frames that one half of a divided tree may be behind the other
_FANOUT = 256
_FANOUT_IN_KERNEL = 1024  # where a batch is merged into all leaves of a node at once, and none is on disk
_ROOT_SHARE = 8
_ROOT_BYTES_SHARE = 4  # the root's buffer takes at most a fourth of a memory limit


@dataclass(frozen=True, slots=True)
class TreeStatistics:
    """A tree's size. `compressed_bytes` of memory hold columns of `raw_bytes`; neither counts the root buffer or the
    disk.
    """

    buffered_rows: int
    stored_rows: int
    levels: int
    nodes: int
    leaves: int
    fragments: int
    raw_bytes: int
    compressed_bytes: int
    spilled_leaves: int
    disk_bytes: int


class CompressedBufferTree:
    """Groups and aggregates rows by (pane, key), lazily and in bounded, compressed buffers.

    `keys`, `aggregates` and `functions` are as in `Layout`. An inner node's buffer is full above `buffer_rows` PAOs,
    the root's with an eighth of what is below it, but with no more than `buffer_rows`; a leaf is full above `leaf_rows`
    keys. Inner nodes have at most `fanout` children. With an `executor` and no memory limit, half of the tree is filled
    there, or a full root buffer is sorted there while earlier rows go down the tree; an error in rows is then raised by
    a later call. With a `memory_limit_bytes`, `memory_bytes` stays within it by means of files in a new directory in
    `spill_directory`, as far as a `spill_quota` allows; past that, inserts raise SpillError as they do on a full disk,
    and no row is lost. The root has at most `root_bytes_max` of the limit, and a fourth of it.
    Raises ValueError for limits that are too small and for a memory limit without a directory or the reverse, and
    SpillError if the directory cannot be written.

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
        fanout: int | None = None,
        leaf_rows: int = 2**16,
        memory_limit_bytes: int | None = None,
        spill_directory: str | PathLike[str] | None = None,
        spill_quota: DiskQuota | None = None,
        root_bytes_max: int = ROOT_BYTES_MAX,
        executor: Executor | None = None,
    ) -> None:
        if fanout is None:
            fanout = _FANOUT_IN_KERNEL if memory_limit_bytes is None and load().library is not None else _FANOUT
        if buffer_rows < 1 or leaf_rows < 2 or fanout < 2:
            raise ValueError("a tree needs buffer_rows >= 1, leaf_rows >= 2 and fanout >= 2")
        if (memory_limit_bytes is None) != (spill_directory is None):
            raise ValueError("memory_limit_bytes needs a spill_directory, and a spill_directory a limit")
        if memory_limit_bytes is not None and memory_limit_bytes < 1:
            raise ValueError(f"memory_limit_bytes is at least 1, not {memory_limit_bytes}")
        self.layout = Layout(keys, aggregates, seed, functions)
        self._limits = TreeLimits(buffer_rows, fanout, leaf_rows)
        self._root_bytes = BUFFER_BYTES
        self._spilling: Spilling | None = None
        if memory_limit_bytes is not None and spill_directory is not None:
            self._root_bytes = min(root_bytes_max, memory_limit_bytes // _ROOT_BYTES_SHARE)
            below = memory_limit_bytes - self._root_bytes
            self._spilling = Spilling(self.layout, below, Path(spill_directory), spill_quota)
        self._executor = executor if memory_limit_bytes is None else None
        self._halves = self._new_halves(buffer_rows)
        self._is_divided = len(self._halves) > 1
        self._upper: deque[Future[None]] = deque()
        """Frames that the upper half is still taking."""
        self._buffer = RootBuffer(self.layout, None if self._is_divided else self._executor)
        self._changes = 0

    def insert(self, frame: pl.DataFrame) -> None:
        """Adds a frame of raw rows: `pane` Int64, and the key and argument columns in any physical form of
        their types.

        Other columns are ignored. Amortised O(n · levels) for n rows; often just an append. Raises ValueError for a
        frame without these columns, and SpillError if the disk fails, so that the memory limit is not kept; the rows
        are in the tree then.

        >>> tree = CompressedBufferTree([], [Aggregate("total", "sum", "price", "number")])
        >>> tree.insert(pl.DataFrame({"pane": [0, 0], "price": [1, 2]}))
        >>> tree.insert(pl.DataFrame({"pane": [0], "price": [0.5]}))
        >>> [tree.layout.lower(frame)["total"].to_list() for frame in tree.flush()]
        [[3.5]]
        """
        self.layout.check_input(frame)
        self._changes += 1
        if self._spilling:
            self._spilling.failure = None
        if frame.height and self._halves[0].takes(frame):
            self._insert_in_tables(frame)
        else:
            self._buffer.append(frame)
        full = min(self._limits.buffer_rows, max(_ROOT_ROWS, self._halves[0].interior.stored_rows // _ROOT_SHARE))
        if self._buffer.rows >= full or self._buffer.memory_bytes >= self._root_bytes:
            self._empty_root()
        if self._spilling and self._spilling.failure:
            raise SpillError(f"{self._spilling.failure}; the rows of this insert are in the tree")

    def merge(self, frame: pl.DataFrame) -> None:
        """Adds PAOs, such as another tree's flush gives: a frame of the layout, in any order. O(n log n).

        Raises SpillError as `insert` does.

        >>> tree = CompressedBufferTree([Key("page", "string")], [Aggregate("hits", "count", None, "any")])
        >>> tree.insert(pl.DataFrame({"pane": [0], "page": ["/a"]}))
        >>> tree.merge(next(tree.flush()))
        >>> [tree.layout.lower(frame)["hits"].to_list() for frame in tree.flush()]
        [[2]]
        """
        self._changes += 1
        if self._spilling:
            self._spilling.failure = None
        self._settle()
        if frame.height:
            self._add(of_frame(self.layout, frame))
        if self._spilling and self._spilling.failure:
            raise SpillError(f"{self._spilling.failure}; the rows of this frame are in the tree")

    @overload
    def flush(
        self, pane: int | None = None, *, upto: int | None = None, partitions: None = None
    ) -> Iterator[pl.DataFrame]: ...

    @overload
    def flush(
        self, pane: int | None = None, *, upto: int | None = None, partitions: int
    ) -> Iterator[tuple[int, pl.DataFrame]]: ...

    def flush(
        self, pane: int | None = None, *, upto: int | None = None, partitions: int | None = None
    ) -> Iterator[pl.DataFrame] | Iterator[tuple[int, pl.DataFrame]]:
        """The PAO frames of all panes, of one, or of those up to one, ordered by (pane, hash, keys).

        Each has at most `leaf_rows` rows, and about 16 MiB if the keys are not of very different lengths. With
        `partitions`, from 1 to 2**32, (partition, frame) pairs: the range of hashes is divided evenly, by
        `cbt.algebra.partitions.partition_of`, the same everywhere, and each frame is of one of them. Where aggregates
        are sets or sketches, no group is parted, and frames of many items may be larger.

        Every key of a pane appears in exactly one row, or one group of rows. The state stays: a flush does not change
        what later ones yield. O(n) for n stored PAOs of the panes asked for, after buffers are emptied; one leaf is
        decompressed at a time. Panes of raw rows alone are aggregated in the root buffer. The iterator raises
        RuntimeError once the tree was changed, and SpillError if a file cannot be read. Raises ValueError for another
        number of partitions.

        >>> tree = CompressedBufferTree([Key("page", "string")], [Aggregate("hits", "count", None, "any")])
        >>> tree.insert(pl.DataFrame({"pane": [0, 60_000], "page": ["/a", "/a"]}))
        >>> [frame["pane"].to_list() for frame in tree.flush(60_000)]
        [[60000]]
        >>> [(partition, frame["page"].to_list()) for partition, frame in tree.flush(0, partitions=16)]
        [(1, ['/a'])]
        """
        if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
            raise ValueError(f"a flush has from 1 to 2**32 partitions, not {partitions}")
        scan = self._scan(self._frames(panes_of(pane, upto)), partitions or 1, self._changes)
        return scan if partitions else (frame for _, frame in scan)

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
        self._settle()
        if panes == EVERY_PANE:
            self._buffer.clear()
            if self._spilling:
                self._spilling.failure = None
        else:
            self._take_lifted()
            self._buffer.forget(panes)
        for half in self._halves:
            half.forget(panes)

    def snapshot(self) -> bytes:
        """Everything in the tree, as bytes for `restore`, with a checksum. O(n) for n stored PAOs, as a flush.

        Raises SnapshotError for a key of more than 64 MiB, and SpillError if a file cannot be read.

        >>> tree = CompressedBufferTree([Key("page", "string")], [Aggregate("hits", "count", None, "any")])
        >>> tree.insert(pl.DataFrame({"pane": [0], "page": ["/a"]}))
        >>> other = CompressedBufferTree([Key("page", "string")], [Aggregate("hits", "count", None, "any")])
        >>> other.restore(tree.snapshot())
        >>> [frame.rows() == list(tree.flush())[0].rows() for frame in other.flush()]
        [True]
        """
        return write_snapshot(self.layout, self.flush())

    def restore(self, data: bytes) -> None:
        """Replaces the content by that of a snapshot of a tree with the same keys, aggregates and seed. O(n).

        Limits may differ. Raises SnapshotError for any other bytes, and SpillError if the disk fails; in both cases the
        tree is unchanged. Until everything is read, both contents are held, each within the memory limit. Snapshots are
        not signed: their states are as trustworthy as their writer.

        >>> tree = CompressedBufferTree([], [Aggregate("hits", "count", None, "any")])
        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")], seed=7).restore(tree.snapshot())
        Traceback (most recent call last):
        cbt.tree.snapshots.SnapshotError: the snapshot has the seed 0, but the tree has 7
        """
        self._settle()
        halves = self._new_halves(self._limits.buffer_rows)
        for frame in read_snapshot(self.layout, data):
            batches = of_frame(self.layout, frame)
            for half in halves:
                half.add(batches)
        if self._spilling and self._spilling.failure:
            raise SpillError(f"{self._spilling.failure}; the tree is as it was")
        self._changes += 1
        self._buffer.clear()
        self._halves = halves

    def close(self) -> None:
        """Forgets everything and removes the tree's files and their directory. O(nodes).

        A tree that is garbage-collected does the same. A closed tree can be used again and then makes a new directory.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     aggregates = [Aggregate("hits", "count", None, "any")]
        ...     tree = CompressedBufferTree([], aggregates, memory_limit_bytes=1, spill_directory=folder)
        ...     tree.insert(pl.DataFrame({"pane": [0, 60_000]}))
        ...     tree.statistics().spilled_leaves
        ...     tree.close()
        ...     list(Path(folder).iterdir())
        2
        []
        """
        self.empty()
        if self._spilling:
            self._spilling.close()

    @property
    def is_on_disk(self) -> bool:
        """Whether a part of the tree is on disk. O(1).

        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")]).is_on_disk
        False
        """
        return self._spilling is not None and self._spilling.is_on_disk

    @property
    def memory_bytes(self) -> int:
        """Bytes of the root's table and columns, of the compressed fragments and of the leaves in memory. O(nodes).

        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")]).memory_bytes
        0
        """
        self._settle()
        return self._buffer.memory_bytes + sum(half.nbytes for half in self._halves)

    def statistics(self) -> TreeStatistics:
        """The size and depth of the tree. O(nodes).

        >>> CompressedBufferTree([], [Aggregate("hits", "count", None, "any")]).statistics().leaves
        0
        """
        self._settle()
        roots = [half.interior.root for half in self._halves]
        nodes, leaves = (
            [node for root in roots for node in root.walk()],
            [leaf for root in roots for leaf in root.leaves()],
        )
        spilled = [leaf for leaf in leaves if isinstance(leaf, SpilledLeaf)]
        fragments = [fragment for node in nodes for fragment in node.fragments]
        return TreeStatistics(
            buffered_rows=self._buffer.rows + self._buffer.rows_ahead + sum(half.groups for half in self._halves),
            stored_rows=sum(half.interior.stored_rows for half in self._halves),
            levels=max(root.levels for root in roots),
            nodes=len(nodes) + len(leaves),
            leaves=len(leaves),
            fragments=len(fragments),
            raw_bytes=sum(fragment.raw_bytes for fragment in fragments) + sum(leaf.raw_bytes for leaf in leaves),
            compressed_bytes=sum(root.nbytes for root in roots),
            spilled_leaves=len(spilled),
            disk_bytes=sum(leaf.disk_bytes for leaf in spilled),
        )

    def check(self) -> None:
        """Asserts every invariant of the tree; for tests. Decompresses everything."""
        self._settle()
        assert self._buffer.rows < self._limits.buffer_rows, "the root's buffer is not full"
        for half in self._halves:
            half.check()

    def _new_halves(self, buffer_rows: int) -> list[Half]:
        """The tree's halves: two where two threads can fill them, else the whole in one."""
        new_interior = partial(Interior, self.layout, self._limits, self._spilling)

        def half(number: int) -> Half:
            table = RootTable.of(self.layout, number, buffer_rows, self._root_bytes)
            return Half(self.layout, number, table, new_interior)

        whole = half(WHOLE)
        return [whole] if self._executor is None or whole.table is None else [half(LOWER), half(UPPER)]

    def _insert_in_tables(self, frame: pl.DataFrame) -> None:
        """Inserts a frame in the root tables: the upper half of a divided tree on the other thread."""
        if self._executor is None or not self._is_divided:
            rest = self._halves[0].insert(frame)
            if rest is not None:
                self._buffer.append(rest)
            return
        lower, upper = self._halves
        self._upper.append(self._executor.submit(upper.insert_all, frame))
        lower.insert_all(frame)
        while len(self._upper) > _FRAMES_AHEAD:
            self._upper.popleft().result()

    def _settle(self) -> None:
        """Waits until the other thread has taken what was inserted."""
        while self._upper:
            self._upper.popleft().result()

    def _empty_root(self) -> None:
        """Moves everything in the root to the nodes."""
        if self._spilling:
            self._spilling.failure = None
        self._settle()
        for batches in self._buffer.drain():
            self._add(batches)
        self._each_half(Half.drain)

    def _each_half(self, act: Callable[[Half], None]) -> None:
        """Does something with both halves at once, where there are two."""
        lower, *upper = self._halves
        if self._executor is not None:
            self._upper += [self._executor.submit(act, half) for half in upper]
        act(lower)
        self._settle()

    def _add(self, batches: list[RowBatch]) -> None:
        for half in self._halves:
            half.add(batches)

    def _take_lifted(self) -> None:
        """Waits for the block that is being lifted, and adds it."""
        for batches in self._buffer.drain_ahead():
            self._add(batches)

    def _frames(self, panes: Panes) -> Iterator[pl.DataFrame]:
        """All PAOs of some panes, in order, in frames of any size."""
        self._settle()
        self._take_lifted()
        if not any(half.interior.root.holds(panes) for half in self._halves):
            return self._buffered(panes)
        self._empty_root()
        self._take_lifted()
        self._each_half(lambda half: half.interior.empty_buffers())
        leaves = merge(*(half.interior.root.leaves() for half in self._halves), key=attrgetter("pane"))
        return self._frames_of([leaf for leaf in leaves if panes[0] <= leaf.pane <= panes[1]])

    def _frames_of(self, leaves: Sequence[AnyLeaf]) -> Iterator[pl.DataFrame]:
        """The frames of leaves, each read while the one before is looked at if there is another thread."""
        if self._executor is None or not self._is_divided:
            yield from (leaf.frame() for leaf in leaves)
            return
        for at in range(0, len(leaves), 2):
            ahead = [self._executor.submit(leaf.frame) for leaf in leaves[at + 1 : at + 2]]
            yield leaves[at].frame()
            yield from (frame.result() for frame in ahead)

    def _buffered(self, panes: Panes) -> Iterator[pl.DataFrame]:
        """The PAOs of panes that are in the root alone."""
        held = [frame for half in self._halves for frame in half.frames(panes)]
        held.sort(key=lambda frame: frame["pane"][0])  # stays in order of halves
        lifted = list(self._buffer.lifted(panes))
        return iter([self.layout.combine([*held, *lifted])] if held and lifted else held or lifted)

    def _scan(
        self, frames: Iterable[pl.DataFrame], partitions: int, changes: int
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        self._check_unchanged(changes)
        for frame in self._sized(frames):
            for pair in cut(frame, partitions):
                yield pair
                self._check_unchanged(changes)

    def _sized(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Cuts frames to a bounded size."""
        if self.layout.has_items:
            yield from whole_groups(self.layout, frames, self._limits.leaf_rows)
            return
        for frame in frames:
            fitting = frame.height * LEAF_BYTES // max(1, int(frame.estimated_size()))
            yield from frame.iter_slices(max(1, min(self._limits.leaf_rows, fitting)))

    def _check_unchanged(self, changes: int) -> None:
        if changes != self._changes:
            raise RuntimeError("the tree was changed while it was being flushed")
