"""The Python clients of a fleet: `connect` for trio, `connect_sync` for plain threads, with all they return and raise.

Both are thin shells around one core (`protocol`, `attachment`, `result`) that knows neither sockets nor clocks.
Requests go in, answers and windows come out. May import `agent.control.messages`, `elf.terminal` and `elf.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.control.messages import Acknowledged, Ended, JobEntry, JobUpdated, Status, WindowsLost
    from elf.client.async_client import AsyncClient, AsyncJob, connect
    from elf.client.attachment import Disconnected, Reconnected, Update
    from elf.client.errors import (
        AgentUnreachableError,
        AnswerTimeoutError,
        ClientError,
        ConnectionLostError,
        ControlProtocolError,
        ForbiddenError,
        JobEndedError,
        OwnedJobError,
        QueryRefusedError,
        RefusedError,
        UnknownJobError,
    )
    from elf.client.result import LastWindows, Result
    from elf.client.sync_client import SyncClient, SyncJob, connect_sync
else:
    # Loaded when first used: the blocking client needs no trio.
    _HOMES = {
        "agent.control.messages": ("Acknowledged", "Ended", "JobEntry", "Status", "JobUpdated", "WindowsLost"),
        "elf.client.async_client": ("AsyncClient", "AsyncJob", "connect"),
        "elf.client.attachment": ("Disconnected", "Reconnected", "Update"),
        "elf.client.errors": (
            "AgentUnreachableError", "AnswerTimeoutError", "ClientError", "ConnectionLostError", "JobEndedError",
            "OwnedJobError", "ForbiddenError",
            "ControlProtocolError", "QueryRefusedError", "RefusedError", "UnknownJobError",
        ),
        "elf.client.result": ("LastWindows", "Result"),
        "elf.client.sync_client": ("SyncClient", "SyncJob", "connect_sync"),
    }  # fmt: skip

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                return getattr(import_module(home), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Acknowledged",
    "AgentUnreachableError",
    "AnswerTimeoutError",
    "AsyncClient",
    "AsyncJob",
    "ClientError",
    "ConnectionLostError",
    "ControlProtocolError",
    "Disconnected",
    "Ended",
    "ForbiddenError",
    "JobEndedError",
    "JobEntry",
    "JobUpdated",
    "LastWindows",
    "OwnedJobError",
    "QueryRefusedError",
    "Reconnected",
    "RefusedError",
    "Result",
    "Status",
    "SyncClient",
    "SyncJob",
    "UnknownJobError",
    "Update",
    "WindowsLost",
    "connect",
    "connect_sync",
]
