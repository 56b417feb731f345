"""The compressed buffer tree and windows: raw rows come in, partial aggregates by pane and key, and windows of them, go
out. Imports nothing of the other rooms."""

from cbt.aggregates.user_defined import ColumnFunction, UserDefinedError, UserFunctions, ValueFunction
from cbt.algebra.columns import Aggregate, Key, Order
from cbt.algebra.hashing import key_hash, key_identities, key_places
from cbt.algebra.scalars import canonical_json
from cbt.codec.frames import FAST, FrameError, decode_frame, encode_frame, frame_bytes
from cbt.layout.layout import Layout, own_strings
from cbt.native.library import tree_status
from cbt.tree.rows import RowBuffer
from cbt.tree.snapshots import SnapshotError
from cbt.tree.spill_files import DiskQuota, SpillError, SpillFile, SpillFiles
from cbt.tree.tree import ROOT_BYTES_MAX, CompressedBufferTree, TreeStatistics
from cbt.windows import SESSION_TIMES, CompleteWindow, Consolidator, OpenSessions, SessionLayout, WindowSize, pane_of

__all__ = [
    "FAST",
    "ROOT_BYTES_MAX",
    "SESSION_TIMES",
    "Aggregate",
    "ColumnFunction",
    "CompleteWindow",
    "CompressedBufferTree",
    "Consolidator",
    "DiskQuota",
    "FrameError",
    "Key",
    "Layout",
    "OpenSessions",
    "Order",
    "RowBuffer",
    "SessionLayout",
    "SnapshotError",
    "SpillError",
    "SpillFile",
    "SpillFiles",
    "TreeStatistics",
    "UserDefinedError",
    "UserFunctions",
    "ValueFunction",
    "WindowSize",
    "canonical_json",
    "decode_frame",
    "encode_frame",
    "frame_bytes",
    "key_hash",
    "key_identities",
    "key_places",
    "own_strings",
    "pane_of",
    "tree_status",
]
