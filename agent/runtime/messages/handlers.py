"""Handlers of job messages: each service lists the message types it takes, and the ways they may come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto

from agent.runtime.model.fields import Message


class Via(Flag):
    """The way a message comes; a handler may allow several."""

    ROUTED = auto()
    """Routed to the root of the job's tree: the handler gets the origin."""
    REQUEST = auto()
    """Routed to the root of the job's tree as a request: the handler responds to the `Requested` event that it gets."""
    FLEET = auto()
    """Multicast to all agents."""
    JOB = auto()
    """Multicast to the job's own group."""
    DIRECT = auto()
    """Sent by one agent to another: the handler gets the sender."""


Handle = Callable[..., bool | None]


@dataclass(frozen=True, slots=True)
class Handler:
    """Handles `(message, now)` for multicasts, else `(message, source, now)`, and refuses by returning False."""

    via: Via
    handle: Handle


Handlers = Mapping[type[Message], Handler]
