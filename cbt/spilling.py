"""Keeping a tree's memory within a limit: what is coldest goes to disk."""

from operator import attrgetter
from pathlib import Path

from cbt.layout import Layout
from cbt.leaf import Leaf
from cbt.node import Node
from cbt.spill_files import SpillError, SpillFiles
from cbt.spilled_leaf import SpilledLeaf


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
