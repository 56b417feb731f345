"""The Python API of ELF.

`elf.connect` (trio) and `elf.connect_sync` ask a fleet; `elf.client` has everything they return and raise.
`elf.local.LocalRun` answers a query over files. `elf.Job` is the base class of jobs written in Python, and
`elf.message` decorates their messages. This file imports nothing before it is used, so that each command loads only its
own parts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from elf.client import ClientError, JobEndedError, Result, connect, connect_sync
    from elf.job import Job, JobError, NoAnswerError, Paos, Window
    from elf.job_messages import message
else:
    # Loaded when first used, so that every command starts with no more than it needs.
    _HOMES = dict.fromkeys(("ClientError", "JobEndedError", "Result", "connect", "connect_sync"), "elf.client")
    _HOMES |= dict.fromkeys(("Job", "JobError", "NoAnswerError", "Paos", "Window"), "elf.job")
    _HOMES["message"] = "elf.job_messages"

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "ClientError",
    "ElfError",
    "Job",
    "JobEndedError",
    "JobError",
    "NoAnswerError",
    "Paos",
    "Result",
    "UsageError",
    "Window",
    "connect",
    "connect_sync",
    "message",
]
