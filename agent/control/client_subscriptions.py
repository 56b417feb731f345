"""Shares one subscription to each job among any number of this agent's clients.

The core follows each job once. A later client gets the last answers at once, and the windows after the one it names: if
the core's are past that, the core follows the job again from there, and clients are not sent windows that they have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from agent.control.messages import Accepted, Acknowledged, Ended, PublishedWindow, WindowsLost
from agent.control.server import encode_answer
from agent.runtime.messages.client_events import JobEvent


class JobFollower(Protocol):
    """Follows jobs; implemented over the agent's core."""

    def follow(self, app_id: int, after: int | None, sink: Callable[[JobEvent], None]) -> None: ...
    def unfollow(self, app_id: int, sink: Callable[[JobEvent], None]) -> None: ...


class Listener(Protocol):
    """Takes encoded answers; see `control.Connection`."""

    def send_line(self, line: bytes) -> None: ...


@dataclass(eq=False, slots=True)
class Client:
    """One client of one job. `after`: the pane of the last window that it has; `on_end` is called once. `warning`: what
    it is told with the job's description."""

    listener: Listener
    after: int | None
    on_end: Callable[[Ended], None]
    warning: str = ""
    is_introduced: bool = False


@dataclass(eq=False, slots=True)
class _Subscription:
    """The clients of one job, and the lines that a later client gets first.

    `after`: only windows after this pane still come; None: only windows published from now on.
    """

    after: int | None
    clients: list[Client] = field(default_factory=list)
    accepted: Accepted | None = None
    acknowledged: bytes | None = None
    is_over: bool = False

    def handle(self, event: JobEvent) -> None:
        """Passes an event of the job to the clients that do not have it."""
        match event:
            case Accepted():
                self.accepted = event
                for client in self.clients:
                    self.introduce(client)
            case Acknowledged():
                self.acknowledged = encode_answer(event)
                for client in self.clients:
                    if client.is_introduced:
                        client.listener.send_line(self.acknowledged)
            case PublishedWindow():
                self._publish(event)
            case WindowsLost():
                line = encode_answer(event)
                for client in self.clients:
                    if client.is_introduced and (client.after is None or event.upto > client.after):
                        client.listener.send_line(line)
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
        """Sends a client the job's description, once that is known."""
        if self.accepted is None or client.is_introduced:
            return
        client.is_introduced = True
        client.listener.send_line(encode_answer(msgspec.structs.replace(self.accepted, warning=client.warning)))
        if self.acknowledged is not None:
            client.listener.send_line(self.acknowledged)


class ClientSubscriptions:
    """The clients of all jobs that are followed through this agent."""

    def __init__(self, core: JobFollower) -> None:
        self._core = core
        self._subscriptions: dict[int, _Subscription] = {}

    def __contains__(self, app_id: int) -> bool:
        return self._subscription(app_id) is not None

    def _subscription(self, app_id: int) -> _Subscription | None:
        subscription = self._subscriptions.get(app_id)
        if subscription is not None and subscription.is_over:
            del self._subscriptions[app_id]
            return None
        return subscription

    def attach(self, app_id: int, client: Client) -> None:
        """Sends a client the job's events from now on, its description first."""
        subscription = self._subscription(app_id)
        if subscription is None:
            subscription = self._subscriptions[app_id] = _Subscription(client.after)
            subscription.clients.append(client)
            self._core.follow(app_id, client.after, subscription.handle)
            return
        subscription.clients.append(client)
        if client.after is None:
            client.after = subscription.after  # another client may make earlier windows come again
        subscription.introduce(client)
        if client.after is not None and (subscription.after is None or client.after < subscription.after):
            subscription.after = client.after
            self._core.follow(app_id, client.after, subscription.handle)

    def detach(self, app_id: int, client: Client) -> None:
        """Stops sending a job's events to a client; unfollows the job after its last client."""
        subscription = self._subscription(app_id)
        if subscription is None or client not in subscription.clients:
            return
        subscription.clients.remove(client)
        if not subscription.clients:
            del self._subscriptions[app_id]
            self._core.unfollow(app_id, subscription.handle)

    def accepted(self, app_id: int, accepted: Accepted) -> None:
        """Notes that a job has been accepted, which clients have started or may follow already."""
        if (subscription := self._subscription(app_id)) is not None:
            subscription.handle(accepted)
