"""Which clients here follow which job: one stream of notices from the core, shared out to any number of them.

The core follows each job once. A client that comes later is given what is known, and the windows from where it wants
them: where that lies further back, the core is asked to follow anew from there, and every client drops what it has had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from agent.control import messages as control
from agent.control.server import encode_answer
from agent.runtime.requests.notices import Accepted, Acknowledged, Ended, Published


class Core(Protocol):
    """What is asked of the agent's core."""

    def follow(self, app_id: int, after: int | None) -> None: ...
    def unfollow(self, app_id: int) -> None: ...


class Listener(Protocol):
    """Who is told things; see `control.Connection`."""

    def send_line(self, line: bytes) -> None: ...


@dataclass(eq=False, slots=True)
class Client:
    """One client of one job. `after`: the pane of the last window it has; `on_end` is called once."""

    listener: Listener
    after: int | None
    on_end: Callable[[Ended], None]
    is_introduced: bool = False


@dataclass(slots=True)
class _Audience:
    """The clients of one job, and what those who come later have to be told.

    Windows up to `after` do not come any more; None: only what comes out from now on does.
    """

    after: int | None
    clients: list[Client] = field(default_factory=list)
    accepted: bytes | None = None
    acknowledged: bytes | None = None


class ClientSubscriptions:
    """Of all jobs that are followed through this agent."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._audiences: dict[int, _Audience] = {}

    def __contains__(self, app_id: int) -> bool:
        return app_id in self._audiences

    def attach(self, app_id: int, client: Client) -> None:
        """From now on the client is told of the job, first that it is there."""
        audience = self._audiences.get(app_id)
        if audience is None:
            audience = self._audiences[app_id] = _Audience(client.after)
            audience.clients.append(client)
            self._core.follow(app_id, client.after)
            return
        audience.clients.append(client)
        if client.after is None:
            client.after = audience.after  # should another ask for what was before: this one did not
        self._introduce(audience, client)
        if client.after is not None and (audience.after is None or client.after < audience.after):
            audience.after = client.after
            self._core.follow(app_id, client.after)

    def detach(self, app_id: int, client: Client) -> None:
        """The client has gone."""
        audience = self._audiences.get(app_id)
        if audience is None or client not in audience.clients:
            return
        audience.clients.remove(client)
        if not audience.clients:
            del self._audiences[app_id]
            self._core.unfollow(app_id)

    def accepted(self, notice: Accepted) -> None:
        """The job is there."""
        audience = self._audiences.get(notice.app_id)
        if audience is None:
            return
        answer = control.Accepted(notice.name, notice.text, list(notice.columns), notice.bounded, notice.version)
        audience.accepted = encode_answer(answer)
        for client in audience.clients:
            self._introduce(audience, client)

    def acknowledged(self, notice: Acknowledged) -> None:
        """So many agents run the job."""
        audience = self._audiences.get(notice.app_id)
        if audience is None:
            return
        answer = control.Acknowledged(notice.agents, notice.expected, notice.version, notice.epoch, notice.master)
        audience.acknowledged = encode_answer(answer)
        for client in audience.clients:
            if client.is_introduced:
                client.listener.send_line(audience.acknowledged)

    def published(self, notice: Published) -> None:
        """A window came: for those who do not have it."""
        audience = self._audiences.get(notice.app_id)
        if audience is None:
            return
        if audience.after is None or notice.pane > audience.after:
            audience.after = notice.pane
        line = encode_answer(control.Window(notice.pane, msgspec.Raw(notice.json)))
        for client in audience.clients:
            if client.is_introduced and (client.after is None or notice.pane > client.after):
                client.after = notice.pane
                client.listener.send_line(line)

    def ended(self, notice: Ended) -> None:
        """There will be no further window."""
        audience = self._audiences.pop(notice.app_id, None)
        for client in audience.clients if audience is not None else ():
            client.on_end(notice)

    def _introduce(self, audience: _Audience, client: Client) -> None:
        if audience.accepted is None or client.is_introduced:
            return
        client.is_introduced = True
        client.listener.send_line(audience.accepted)
        if audience.acknowledged is not None:
            client.listener.send_line(audience.acknowledged)
