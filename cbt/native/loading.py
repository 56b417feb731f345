"""Loads compiled libraries, if they fit this machine and this version of ELF: the tree's, and those of other rooms."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

SEAL = ".json"
"""Suffix of the file beside a library that says what it has to be: loading a damaged one could end the process."""
SWITCH = "ELF_NATIVE"
"""Environment variable that turns all libraries off where it is 0."""
_VERSION_FACTOR = 1000

Signature = tuple[Any, tuple[Any, ...]]
"""The types that a function returns and takes."""


class Loaded(NamedTuple):
    """A library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str


class Interface(NamedTuple):
    """The calls between Python and a library: their version, the structure that its memory is laid out by, the function
    that returns both as one number, and all others. Those that are `brief` keep the interpreter's lock: to get it back
    from another thread may take longer than they do."""

    version: int
    memory: type[ctypes.Structure]
    check: str
    functions: Mapping[str, Signature]
    brief: frozenset[str] = frozenset()

    @property
    def number(self) -> int:
        """The number that a library of this interface returns."""
        return self.version * _VERSION_FACTOR + ctypes.sizeof(self.memory)


def load_library(file: Path, interface: Interface) -> Loaded:
    """Loads a library, unless it is turned off, of another machine or version, or damaged."""
    if os.environ.get(SWITCH) == "0":
        return Loaded(None, f"{SWITCH}=0 turns it off")
    reason = _unfit(file)
    if reason:
        return Loaded(None, reason)
    try:
        library = ctypes.CDLL(str(file))
        check = getattr(library, interface.check)
        check.restype, check.argtypes = ctypes.c_int32, ()
        if check() != interface.number:
            return Loaded(None, "it was built for another version of ELF")
        for name, (result, arguments) in interface.functions.items():
            if name in interface.brief:
                setattr(library, name, ctypes.PYFUNCTYPE(result, *arguments)((name, library)))
            else:
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        return Loaded(None, f"it cannot be loaded: {error}")
    return Loaded(library, "")


def _unfit(file: Path) -> str:
    """The reason why a library must not even be opened, "" if there is none."""
    try:
        content, seal = file.read_bytes(), json.loads(file.with_suffix(SEAL).read_bytes())
        digest, built_for = seal["sha256"], (seal["machine"], seal["system"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it was not built when ELF was installed"
    if built_for != (platform.machine(), sys.platform):
        return f"it was built for {' '.join(map(str, built_for))}"
    return "" if hashlib.sha256(content).hexdigest() == digest else "it is damaged"
