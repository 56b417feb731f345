"""Replies and events that an agent's core reports to its clients and its shell, beside the events of followed jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agent.runtime.messages.client_events import Accepted
from agent.runtime.messages.job_records import JobRecord
from agent.runtime.messages.jobs import Answer, Ask, StopAnswer, Updated
from agent.runtime.messages.plans import PlanQuestion
from agent.runtime.messages.programs import Log, LogRequest
from agent.runtime.messages.views.descriptions import AgentDescription, SampleStream, StreamDescription, StreamSample
from agent.runtime.messages.views.dry_runs import DryRun, DryRunView
from agent.runtime.messages.views.element_views import ElementsDescription
from agent.runtime.messages.views.latency import LatencyRequest, LatencyView
from agent.runtime.messages.views.placement import PlacementView, PlaceRequest
from overlay import EpochTaken, Id, Peer, PeerFailed, PeerLeft


@dataclass(frozen=True, slots=True)
class SubmitRefused:
    """The reason why a job has not been started, one line for people. `unavailable`: trying again later may help."""

    app_id: int
    reason: str
    unavailable: bool


@dataclass(frozen=True, slots=True)
class UpdateRefused:
    """The reason why a job has not been updated: usage (as requested), unknown (no such job), unavailable (not now)."""

    app_id: int
    reason: str
    kind: Literal["usage", "unknown", "unavailable"]


@dataclass(frozen=True, slots=True)
class AskRefused:
    """An `ask` has no answer: for now if `unavailable`, else because there is no such job."""

    unavailable: bool


SubmitReply = Accepted | SubmitRefused
UpdateReply = Updated | UpdateRefused
StopReply = StopAnswer
JobQuestion = Ask | LogRequest | PlaceRequest | LatencyRequest
AskReply = Answer | Log | PlacementView | LatencyView | AskRefused


@dataclass(frozen=True, slots=True)
class Shown:
    """The JSON that a job's code leaves for the web server beside the agent."""

    app: str
    json: bytes


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """An agent asks for a description of a stream on this agent, which `StreamDiscovery.answer` sends."""

    asker: Peer
    question: int
    stream: str


@dataclass(frozen=True, slots=True)
class StreamSurveyed:
    """The descriptions of a stream that came in time, by agent; `silent` agents have not answered."""

    answers: Mapping[Peer, StreamDescription]
    silent: int


@dataclass(frozen=True, slots=True)
class DryRunAsked:
    """An agent asks for a dry run of a query on this agent, which `StreamDiscovery.give_dry_run` answers."""

    asker: Peer
    message: DryRun


@dataclass(frozen=True, slots=True)
class DryRunsDone:
    """The dry runs of a query that came in time, by node id; `silent` agents have not answered."""

    answers: Mapping[Id, DryRunView]
    silent: int


@dataclass(frozen=True, slots=True)
class AgentAsked:
    """An agent asks for a description of this one, which `StreamDiscovery.describe` sends."""

    asker: Peer
    question: int
    job: Id | None


@dataclass(frozen=True, slots=True)
class AgentsDescribed:
    """The descriptions of agents that came in time, by node id; `silent` agents have not answered."""

    answers: Mapping[Id, AgentDescription]
    silent: int


@dataclass(frozen=True, slots=True)
class StreamSampled:
    """The samples of a stream that came in time, by node id; `silent` agents have not answered."""

    answers: Mapping[Id, StreamSample]
    silent: int


@dataclass(frozen=True, slots=True)
class ElementsDescribed:
    """The descriptions of processing elements that came in time, by node id; `silent` agents have not answered."""

    answers: Mapping[Id, ElementsDescription]
    silent: int


class AgentObserver:
    """Receives events that no client has requested; the shell around a core overrides the methods it needs."""

    def peer_gone(self, event: PeerFailed | PeerLeft) -> None:
        """Another agent has failed or left."""

    def epochs_taken(self, epochs: list[EpochTaken]) -> None:
        """The node has taken these epochs; called before a message that names them is sent."""

    @property
    def keeps_jobs(self) -> bool:
        """Whether a disk keeps the descriptors of jobs."""
        return False

    def job_recorded(self, record: JobRecord) -> None:
        """The disk is to have this record, after those before; `Agent.jobs_stored` is to be called when it does."""

    @property
    def keeps_sealed(self) -> bool:
        """Whether a disk takes what `Agent.ingest.journal` yields, and `Agent.sealed_stored` is called when it has."""
        return False

    def rows_unjoinable(self, rows: str, why: str) -> None:
        """The rows of a job or table cannot be joined with, for this reason in one line."""

    def job_contained(self, app_id: Id, error: BaseException) -> None:
        """The data of a job has raised this, which ends the job, or this agent's work for it."""

    def shown(self, shown: Shown) -> None:
        """The code of a job here shows something."""

    def stream_asked(self, asked: StreamAsked) -> None:
        """An agent asks for a description of a stream on this agent."""

    def agent_asked(self, asked: AgentAsked) -> None:
        """An agent asks for a description of this one."""

    def sample_asked(self, asked: SampleStream) -> None:
        """An agent asks for a sample of a stream on this agent, which `StreamDiscovery.give_sample` sends."""

    def dry_run_asked(self, asked: DryRunAsked) -> None:
        """An agent asks for a dry run of a query on this agent."""

    def plan_asked(self, question: PlanQuestion) -> None:
        """The master of a job here asks for its plan by now, which `JobMasters.planned` takes."""
