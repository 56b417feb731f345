"""Asserts the invariants of a compressed buffer tree."""

from itertools import pairwise

from cbt.layout.layout import Layout
from cbt.tree.fragment import EVERY_PANE, LOWEST, Bound
from cbt.tree.node import BufferNode
from cbt.tree.spilled_leaf import SpilledLeaf

_HIGHEST: Bound = (2**63, 0)


def check_tree(root: BufferNode, layout: Layout, buffer_rows: int, fanout: int, leaf_rows: int) -> None:
    """Asserts the invariants below the root buffer: shape, order, ranges and fill. O(n log n) for n stored PAOs."""
    assert not root.fragments, "the root's buffer is the columnar one"
    assert len(set(_leaf_depths(root))) <= 1, "all leaves are at one depth"
    for node in root.walk():
        assert len(node.children) <= fanout, "the fan-out is kept"
        assert node.children or node is root, "inner nodes have children"
        assert node.rows <= buffer_rows, "no buffer is over-full"
    for leaf in root.leaves():
        assert len(leaf), "no leaf is empty"
        assert isinstance(leaf, SpilledLeaf) or len(leaf) <= leaf_rows or leaf.is_one_hash, "no leaf is over-full"
    _check_ranges(root, layout, LOWEST, _HIGHEST)


def _check_ranges(node: BufferNode, layout: Layout, low: Bound, high: Bound) -> None:
    assert low < high, "ranges ascend"
    for fragment, frame in zip(node.fragments, node.read(layout, EVERY_PANE), strict=True):
        assert frame.height == fragment.rows > 0
        assert frame.schema == layout.schema
        assert layout.merge([frame]).equals(frame), "fragments are sorted and aggregated"
        rows = frame.select("pane", "hash").rows()
        assert low <= rows[0] <= rows[-1] < high, "rows lie in their node's range"
        assert (rows[0][0], rows[-1][0]) == (fragment.first_pane, fragment.last_pane)
    bounds = [low, *node.separators, high] if node.children else []
    for child, (start, end) in zip(node.children, pairwise(bounds), strict=True):
        if isinstance(child, BufferNode):
            _check_ranges(child, layout, start, end)
        else:
            child.check(start, end)


def _leaf_depths(node: BufferNode) -> list[int]:
    depths: list[int] = []
    for child in node.children:
        depths += [depth + 1 for depth in _leaf_depths(child)] if isinstance(child, BufferNode) else [0]
    return depths
