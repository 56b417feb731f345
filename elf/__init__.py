"""What people import and type. `elf.local.LocalRun` answers a query over files from Python."""

from elf.errors import ElfError, UsageError

__all__ = ["ElfError", "UsageError"]
