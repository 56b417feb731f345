"""Events of a followed job, as followers on its agent get them and as the control socket carries them to clients.

Clients import this module, so it imports nothing of the runtime.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Accepted(msgspec.Struct, frozen=True, tag="accepted"):
    """The job exists: its name, its query as ELF reads it, the columns of its rows, and the version in force.

    `warning`: why its results may come later than it says, for the client that has submitted it.
    """

    app: str
    query: str
    columns: list[str]
    bounded: bool
    version: int = 1
    warning: str = ""


class Acknowledged(msgspec.Struct, frozen=True, tag="acknowledged"):
    """The number of agents that run the job and of those on its roster; repeated when either changes."""

    agents: int
    expected: int
    version: int
    epoch: int
    master: str


class PublishedWindow(msgspec.Struct, frozen=True, tag="window"):
    """One result as its JSON (DESIGN 5); `pane` is the window's start in epoch ms (0 without windows).

    Panes come in order. After another `follow` of the same job they start again after the pane that it names.
    """

    pane: int
    result: msgspec.Raw


class WindowsLost(msgspec.Struct, frozen=True, tag="windows_lost"):
    """Windows were published that a follower has not got, and cannot get any more: masters keep the last ones only.

    `after`: the pane of the last window before them, None if there was none; `upto`: that of the last one of them.
    """

    after: int | None
    upto: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """There will be no further result of the job.

    finished: its input ended; stopped: someone stopped it, or nobody followed it; nobody: no agent has its stream;
    lost: no master of it has sent anything for too long; unknown: there is no such job; failed: it cannot go on, and
    `failure` tells people why.
    """

    reason: Literal["finished", "stopped", "nobody", "lost", "unknown", "failed"]
    failure: str = ""


JobEvent = Accepted | Acknowledged | PublishedWindow | WindowsLost | Ended
