"""The Python API of ELF.

`elf.connect` (trio) and `elf.connect_sync` ask a fleet; `elf.client` has everything they return and raise.
`elf.local.LocalRun` answers a query over files. `elf.Job` is the base class of jobs written in Python, `elf.message`
decorates their messages, and `elf.Aggregate` is the base of their own aggregates. Jobs that process events key by key
declare them with `elf.source` and `elf.event`, and their elements with `elf.PE`, `elf.top`, `elf.join` and
`elf.aggregate`. This file imports nothing before it is used, so that each command loads only its own parts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from elf.client import ClientError, JobEndedError, Result, connect, connect_sync
    from elf.elements.declared import aggregate, join, source, top
    from elf.elements.element import PE
    from elf.elements.event import ElementError, event
    from elf.job import Job, JobError, NoAnswerError, Paos, Window
    from elf.job_aggregate import Aggregate, AggregateError
    from elf.job_messages import message
else:
    # Loaded when first used, so that every command starts with no more than it needs.
    _HOMES = dict.fromkeys(("ClientError", "JobEndedError", "Result", "connect", "connect_sync"), "elf.client")
    _HOMES |= dict.fromkeys(("Job", "JobError", "NoAnswerError", "Paos", "Window"), "elf.job")
    _HOMES |= dict.fromkeys(("Aggregate", "AggregateError"), "elf.job_aggregate")
    _HOMES["message"] = "elf.job_messages"
    _HOMES |= dict.fromkeys(("aggregate", "join", "source", "top"), "elf.elements.declared")
    _HOMES |= {"PE": "elf.elements.element", "ElementError": "elf.elements.event", "event": "elf.elements.event"}

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "PE",
    "Aggregate",
    "AggregateError",
    "ClientError",
    "ElementError",
    "ElfError",
    "Job",
    "JobEndedError",
    "JobError",
    "NoAnswerError",
    "Paos",
    "Result",
    "UsageError",
    "Window",
    "aggregate",
    "connect",
    "connect_sync",
    "event",
    "join",
    "message",
    "source",
    "top",
]
