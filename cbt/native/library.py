"""The calls between Python and the tree's kernel."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from cbt.native.loading import Interface, Loaded, Signature, load_library

FILE = Path(__file__).with_name("_tree.so")

OPERATIONS = (
    "rows", "values", "integers", "units", "doubles", "least", "greatest", "squares", "unit squares", "double squares",
)  # fmt: skip
"""Additions of a row to a group's state, in the order of the kernel's numbers: `rows` and `values` count, `integers`
sum in 128 bits, `units` the same in units of 2**-32, `doubles` in such units and those of 2**-128; `least` and
`greatest` have a mark where there is a value, and its rank; squares are summed in units of 2**72 and 1, those of
`units` and `doubles` in units of 2**32, 2**-64, 2**-160 and 2**-256."""

LEAF_FIGURES = 5
"""Figures of each leaf that rows were merged into: the ends of the rows that were there and of the others, the keys,
those of them that wait to be compressed, and the bytes of these."""

SUM, LAST_SUM, LEAST_RANK, GREATEST_RANK, ANY = range(5)
"""The kernel's names of the ways in which parts of states are merged; see `merging` in states.h."""

STORED_TEXT, STORED_JSON, STORED_INTEGER, STORED_BOOLEAN = range(4)
"""The kernel's names of the ways in which keys are stored."""


class Array(ctypes.Structure):
    """An array of Arrow's C data interface."""


Array._fields_ = (
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.c_void_p),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
)


class Column(ctypes.Structure):
    """A column of a block; see `Column` in tree.h."""

    _fields_ = (("array", ctypes.POINTER(Array)), ("format", ctypes.c_int32), ("stored", ctypes.c_int32))


class Source(ctypes.Structure):
    """An addition of a column to states; see `Source` in tree.h."""

    _fields_ = (("operation", ctypes.c_int32), ("word", ctypes.c_int32), ("column", Column))


class Root(ctypes.Structure):
    """The memory of a root; see `Root` in tree.h."""

    _fields_ = (
        ("slots", ctypes.c_void_p),
        ("entries", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("panes", ctypes.c_void_p),
        ("slot_bits", ctypes.c_int64),
        ("entries_max", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("arena_bytes", ctypes.c_int64),
        ("panes_max", ctypes.c_int64),
        ("used", ctypes.c_int64),
        ("arena_used", ctypes.c_int64),
        ("panes_used", ctypes.c_int64),
        ("skipped_bits", ctypes.c_int64),
        ("rows", ctypes.c_int64),
    )


class Texts(ctypes.Structure):
    """Texts by rows; see `Texts` in tail.h."""

    _fields_ = (("text", ctypes.c_void_p), ("ends", ctypes.c_void_p), ("valid", ctypes.c_void_p))


class Batch(ctypes.Structure):
    """Rows for leaves; see `Batch` in leaf.c."""

    _fields_ = (
        ("hashes", ctypes.c_void_p),
        ("checks", ctypes.c_void_p),
        ("states", ctypes.POINTER(ctypes.c_void_p)),
        ("rows", ctypes.c_void_p),
        ("texts", Texts),
    )


class KernelBlock(ctypes.Structure):
    """Rows to read keys of; see `Block` in tree.h."""

    _fields_ = (
        ("keys", ctypes.POINTER(Column)),
        ("sources", ctypes.POINTER(Source)),
        ("panes", ctypes.POINTER(Array)),
        ("scratch", ctypes.c_void_p),
        ("keys_count", ctypes.c_int64),
        ("sources_count", ctypes.c_int64),
        ("scratch_bytes", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("row", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("half", ctypes.c_int64),
    )


class FoldedRows(ctypes.Structure):
    """Rows of slots with values; see `Fold` in slots.c."""

    _fields_ = (
        ("slots", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("valid", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("n", ctypes.c_void_p),
        ("n_out", ctypes.c_void_p),
    )


_POINTER, _NUMBER, _SMALL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
_FUNCTIONS: dict[str, Signature] = {
    "elf_root_insert": (_SMALL, (_POINTER, _POINTER)),
    "elf_root_copy": (_SMALL, (_POINTER, _POINTER, _NUMBER, _NUMBER)),
    "elf_root_order": (None, (_POINTER,) * 5),
    "elf_root_emit": (_NUMBER, (_POINTER, _POINTER, _NUMBER, *(_POINTER,) * 4, _SMALL, *(_POINTER,) * 4)),
    "elf_root_values": (_NUMBER, (_POINTER, _POINTER, _NUMBER, _SMALL, _POINTER, _POINTER, _POINTER)),
    "elf_root_texts": (None, (_POINTER, _POINTER, _NUMBER, _POINTER, _POINTER, _POINTER)),
    "elf_limbs": (_NUMBER, (_POINTER, _NUMBER, _POINTER)),
    "elf_are_ordinary": (_SMALL, (_POINTER,)),
    "elf_checks": (_NUMBER, (_POINTER, _POINTER, _POINTER)),
    "elf_text_hashes": (None, (_POINTER, _POINTER, _POINTER, _NUMBER, ctypes.c_uint64, _POINTER)),
    "elf_leaf_new": (_POINTER, (ctypes.c_uint64, _NUMBER, ctypes.c_char_p, _NUMBER)),
    "elf_leaf_free": (None, (_POINTER,)),
    "elf_leaf_count": (_NUMBER, (_POINTER,)),
    "elf_leaf_bytes": (_NUMBER, (_POINTER,)),
    "elf_leaf_order": (None, (_POINTER,) * 3),
    "elf_leaf_states": (_SMALL, (_POINTER, _NUMBER, _POINTER, _NUMBER, _POINTER)),
    "elf_leaves_merge": (_SMALL, (_POINTER, _POINTER, _NUMBER, *(_POINTER,) * 5)),
    "elf_tail_count": (_NUMBER, (_POINTER,)),
    "elf_tail_bytes": (_NUMBER, (_POINTER,)),
    "elf_tail_copy": (None, (_POINTER,) * 4),
    "elf_tail_clear": (None, (_POINTER,)),
    "elf_tail_append": (_SMALL, (_POINTER, _POINTER, _POINTER, _NUMBER)),
    "elf_texts": (_SMALL, (*(_POINTER,) * 4, _NUMBER, _POINTER, _POINTER)),
    "elf_key_hashes": (_NUMBER, (_POINTER, _POINTER)),
    "elf_key_places": (_NUMBER, (_POINTER, _SMALL, _POINTER)),
    "elf_key_identities": (_NUMBER, (_POINTER,) * 4),
    "elf_slots_add": (_NUMBER, (_POINTER, ctypes.c_uint64, *(_POINTER,) * 4, _NUMBER, _POINTER, _NUMBER, _POINTER)),
    "elf_fresh": (_NUMBER, (*(_POINTER,) * 3, _NUMBER, _NUMBER, *(_POINTER,) * 3)),
    "elf_number": (None, (_POINTER, _NUMBER, _NUMBER, _POINTER, _SMALL, _POINTER, _POINTER)),
    "elf_slots_find": (None, (_POINTER, ctypes.c_uint64, *(_POINTER,) * 4, _NUMBER, _POINTER)),
    "elf_fold_counts": (None, (_POINTER,)),
    "elf_fold_integers": (None, (_POINTER,) * 5),
    "elf_fold_doubles": (None, (_POINTER,) * 3),
    "elf_fold_integer_extremes": (None, (_POINTER, _POINTER, _SMALL, _POINTER)),
    "elf_fold_double_extremes": (None, (_POINTER, _POINTER, _SMALL, _POINTER)),
    "elf_gather": (None, (_POINTER, _POINTER, _NUMBER, _POINTER)),
}
_BRIEF = frozenset(
    {
        "elf_leaf_new", "elf_leaf_free", "elf_leaf_count", "elf_leaf_bytes", "elf_tail_count", "elf_tail_bytes",
        "elf_tail_copy", "elf_tail_clear",
    }
)  # fmt: skip
INTERFACE = Interface(5, Root, "elf_tree_abi", _FUNCTIONS, _BRIEF)


@cache
def load() -> Loaded:
    """Loads the library, once in a process."""
    return load_library(FILE, INTERFACE)


def tree_status() -> str:
    """A few words for people: whether trees have their kernel, and why not."""
    library, reason = load()
    return "native" if library is not None else f"in Python: the tree's kernel is not used, {reason}"
