"""The invariants of a compressed buffer tree, asserted."""

import polars as pl

from cbt.fragment import EVERY_PANE, LOWEST, Bound
from cbt.layout import Layout
from cbt.node import Node

_HIGHEST: Bound = (2**63, 0)


def check_tree(root: Node, layout: Layout, buffer_rows: int, fanout: int, leaf_rows: int) -> None:
    """Asserts what must hold below the root buffer: shape, order, ranges and fill. O(n log n) for n stored
    PAOs.
    """
    assert root.children, "the root has children"
    assert not root.fragments, "the root's buffer is the columnar one"
    assert len(set(_leaf_depths(root))) == 1, "all leaves are at one depth"
    for node in root.walk():
        assert len(node.children) <= fanout, "the fan-out is kept"
        limit = leaf_rows if node.is_leaf else buffer_rows
        assert node.rows <= limit or _is_one_hash(node, layout), "no buffer is over-full"
    _check_ranges(root, layout, LOWEST, _HIGHEST)


def _check_ranges(node: Node, layout: Layout, low: Bound, high: Bound) -> None:
    assert low < high, "ranges ascend"
    for fragment in node.fragments:
        frame = fragment.unpack(layout.schema)
        assert frame.height == fragment.rows > 0
        assert frame.schema == layout.schema
        assert layout.combine([frame]).equals(frame), "fragments are sorted and aggregated"
        bounds = frame.select("pane", "hash").rows()
        assert low <= bounds[0] <= bounds[-1] < high, "rows lie in their node's range"
        assert (bounds[0][0], bounds[-1][0]) == (fragment.first_pane, fragment.last_pane)
    starts, ends = [low, *node.separators], [*node.separators, high]
    for child, start, end in zip(node.children, starts, ends, strict=not node.is_leaf):
        _check_ranges(child, layout, start, end)


def _leaf_depths(node: Node) -> list[int]:
    return [depth + 1 for child in node.children for depth in _leaf_depths(child)] if node.children else [0]


def _is_one_hash(node: Node, layout: Layout) -> bool:
    frames = [frame.select("pane", "hash") for frame in node.read(layout, EVERY_PANE)]
    return node.is_leaf and pl.concat(frames).n_unique() == 1
