"""What people import and type.

`elf.connect` (trio) and `elf.connect_sync` ask a fleet, see `elf.client` for all they give and raise;
`elf.local.LocalRun` answers a query over files.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from elf.client import ClientError, JobEndedError, Result, connect, connect_sync
else:
    # Loaded when first used, so that every command starts with no more than it needs.
    _OF_CLIENT = {"ClientError", "JobEndedError", "Result", "connect", "connect_sync"}

    def __getattr__(name: str) -> object:
        if name not in _OF_CLIENT:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("elf.client"), name)


__all__ = ["ClientError", "ElfError", "JobEndedError", "Result", "UsageError", "connect", "connect_sync"]
