"""Events that an agent's core reports to its clients and to the shell around it, beside those of followed jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.runtime.messages.client_events import Accepted
from agent.runtime.messages.descriptions import StreamDescription
from agent.runtime.messages.jobs import Answer, StopAnswer, Updated
from agent.runtime.messages.programs import Log
from overlay import EpochTaken, Peer, PeerFailed, PeerLeft


@dataclass(frozen=True, slots=True)
class SubmitRefused:
    """A job was not started, and why: one line for people. `unavailable`: trying again later may help."""

    app_id: int
    reason: str
    unavailable: bool


@dataclass(frozen=True, slots=True)
class UpdateRefused:
    """A job computes what it did, and why: usage (as it was asked), unknown (no such job), unavailable (not now)."""

    app_id: int
    reason: str
    kind: Literal["usage", "unknown", "unavailable"]


@dataclass(frozen=True, slots=True)
class AskRefused:
    """There is no answer to an `ask`; `unavailable`: not now, else there is no such job."""

    unavailable: bool


SubmitReply = Accepted | SubmitRefused
UpdateReply = Updated | UpdateRefused
StopReply = StopAnswer
AskReply = Answer | Log | AskRefused


@dataclass(frozen=True, slots=True)
class Shown:
    """A job's code leaves this JSON for the web server beside the agent."""

    app: str
    json: bytes


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """An agent wants to know what a stream holds here: `StreamDiscovery.tell` answers."""

    asker: Peer
    question: int
    stream: str


@dataclass(frozen=True, slots=True)
class StreamSurveyed:
    """The descriptions of a stream that came in time; `silent` agents have not answered."""

    answers: tuple[StreamDescription, ...]
    silent: int


class AgentObserver:
    """Hears what nobody has asked for; the shell around a core overrides what it cares about."""

    def peer_gone(self, event: PeerFailed | PeerLeft) -> None:
        """Another agent has failed or left."""

    def epochs_taken(self, epochs: list[EpochTaken]) -> None:
        """The node has taken these epochs; called before any message is sent that names them."""

    def rows_unjoinable(self, rows: str, why: str) -> None:
        """The rows of a job or table cannot be joined with, and why, in one line."""

    def shown(self, shown: Shown) -> None:
        """The code of a job here shows something."""

    def stream_asked(self, asked: StreamAsked) -> None:
        """An agent asks what a stream holds here."""
