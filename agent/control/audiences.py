"""Shares one following of each job out to any number of clients of this agent.

The core follows each job once. A client that comes later is given what is known, and the windows from where it wants
them: where that lies further back, the core is asked to follow anew from there, and every client drops what it has had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from agent.control.messages import Accepted, Acknowledged, Ended, PublishedWindow
from agent.control.server import encode_answer
from agent.runtime.messages.client_events import JobEvent


class JobFollower(Protocol):
    """Follows jobs: the agent's core as this module sees it."""

    def follow(self, app_id: int, after: int | None, sink: Callable[[JobEvent], None]) -> None: ...
    def unfollow(self, app_id: int, sink: Callable[[JobEvent], None]) -> None: ...


class Listener(Protocol):
    """Takes encoded answers; see `control.Connection`."""

    def send_line(self, line: bytes) -> None: ...


@dataclass(eq=False, slots=True)
class Client:
    """One client of one job. `after`: the pane of the last window it has; `on_end` is called once."""

    listener: Listener
    after: int | None
    on_end: Callable[[Ended], None]
    is_introduced: bool = False


@dataclass(eq=False, slots=True)
class _Audience:
    """The clients of one job, and the lines that later ones get first.

    Windows up to `after` do not come any more; None: only windows published from now on come.
    """

    after: int | None
    clients: list[Client] = field(default_factory=list)
    accepted: bytes | None = None
    acknowledged: bytes | None = None
    is_over: bool = False

    def handle(self, event: JobEvent) -> None:
        """Takes an event of the job: for those clients that do not have it."""
        match event:
            case Accepted():
                self.accepted = encode_answer(event)
                for client in self.clients:
                    self.introduce(client)
            case Acknowledged():
                self.acknowledged = encode_answer(event)
                for client in self.clients:
                    if client.is_introduced:
                        client.listener.send_line(self.acknowledged)
            case PublishedWindow():
                self._publish(event)
            case Ended():
                self.is_over = True
                clients, self.clients = self.clients, []
                for client in clients:
                    client.on_end(event)

    def _publish(self, window: PublishedWindow) -> None:
        if self.after is None or window.pane > self.after:
            self.after = window.pane
        line = encode_answer(window)
        for client in self.clients:
            if client.is_introduced and (client.after is None or window.pane > client.after):
                client.after = window.pane
                client.listener.send_line(line)

    def introduce(self, client: Client) -> None:
        """Tells a client what the job is, once that is known."""
        if self.accepted is None or client.is_introduced:
            return
        client.is_introduced = True
        client.listener.send_line(self.accepted)
        if self.acknowledged is not None:
            client.listener.send_line(self.acknowledged)


class ClientSubscriptions:
    """The audiences of all jobs that clients follow through this agent."""

    def __init__(self, core: JobFollower) -> None:
        self._core = core
        self._audiences: dict[int, _Audience] = {}

    def __contains__(self, app_id: int) -> bool:
        return self._audience(app_id) is not None

    def _audience(self, app_id: int) -> _Audience | None:
        audience = self._audiences.get(app_id)
        if audience is not None and audience.is_over:
            del self._audiences[app_id]
            return None
        return audience

    def attach(self, app_id: int, client: Client) -> None:
        """Tells a client of the job from now on, first that it is there."""
        audience = self._audience(app_id)
        if audience is None:
            audience = self._audiences[app_id] = _Audience(client.after)
            audience.clients.append(client)
            self._core.follow(app_id, client.after, audience.handle)
            return
        audience.clients.append(client)
        if client.after is None:
            client.after = audience.after  # should another ask for what was before: this one did not
        audience.introduce(client)
        if client.after is not None and (audience.after is None or client.after < audience.after):
            audience.after = client.after
            self._core.follow(app_id, client.after, audience.handle)

    def detach(self, app_id: int, client: Client) -> None:
        """The client has gone."""
        audience = self._audience(app_id)
        if audience is None or client not in audience.clients:
            return
        audience.clients.remove(client)
        if not audience.clients:
            del self._audiences[app_id]
            self._core.unfollow(app_id, audience.handle)

    def accepted(self, app_id: int, accepted: Accepted) -> None:
        """A job that clients here have started, or may follow already, is there."""
        if (audience := self._audience(app_id)) is not None:
            audience.handle(accepted)
