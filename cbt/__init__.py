"""The compressed buffer tree, and the algebra of what it stores: partial aggregates by pane and key."""

from cbt.columns import Aggregate, Key, Order
from cbt.frames import FrameError, decode_frame, encode_frame
from cbt.hashing import key_hash
from cbt.layout import Layout
from cbt.rows import RowBuffer
from cbt.scalars import canonical_json
from cbt.snapshots import SnapshotError
from cbt.spill_files import SpillError
from cbt.tree import CompressedBufferTree, TreeStatistics
from cbt.user_defined import ColumnFunction, UserDefinedError, UserFunctions, ValueFunction
from cbt.windows import SESSION_TIMES, Consolidator, OpenSessions, SessionLayout, Window, WindowSize, pane_of

__all__ = [
    "SESSION_TIMES",
    "Aggregate",
    "ColumnFunction",
    "CompressedBufferTree",
    "Consolidator",
    "FrameError",
    "Key",
    "Layout",
    "OpenSessions",
    "Order",
    "RowBuffer",
    "SessionLayout",
    "SnapshotError",
    "SpillError",
    "TreeStatistics",
    "UserDefinedError",
    "UserFunctions",
    "ValueFunction",
    "Window",
    "WindowSize",
    "canonical_json",
    "decode_frame",
    "encode_frame",
    "key_hash",
    "pane_of",
]
