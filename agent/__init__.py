"""The daemon's room: sources, parsers and the job runtime (worker, combiner, master)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.configuration.config import Config, ConfigError, load_config
    from agent.daemon.own_identity import check_revocations, load_identity
    from agent.daemon.run import run_agent
    from agent.errors import StartError
    from agent.runtime.agent import Agent
    from agent.runtime.embedded import EmbeddedFleet
    from agent.runtime.function.result import Result
    from agent.runtime.function.spill import SpillArea
    from agent.runtime.ingest.feed import Feed, StreamOptions
    from agent.runtime.master.state import JobState
    from agent.runtime.messages.jobs import Submit, Update
    from agent.runtime.model.mandate import Mandate, mandate_digest, signed_bytes
    from agent.runtime.requests.notices import (
        Accepted,
        Acknowledged,
        Answered,
        AskRefused,
        CoreEvent,
        Ended,
        Published,
        StopAnswered,
        SubmitRefused,
        UpdateAnswered,
        UpdateRefused,
    )
    from agent.runtime.requests.status import AgentStatus, JobListing, PartStatus
else:
    # Loaded when first used: a client needs the control messages, and not Polars.
    _HOMES = {
        "Accepted": "agent.runtime.requests.notices",
        "Acknowledged": "agent.runtime.requests.notices",
        "Agent": "agent.runtime.agent",
        "AgentStatus": "agent.runtime.requests.status",
        "Answered": "agent.runtime.requests.notices",
        "AskRefused": "agent.runtime.requests.notices",
        "Config": "agent.configuration.config",
        "ConfigError": "agent.configuration.config",
        "EmbeddedFleet": "agent.runtime.embedded",
        "Ended": "agent.runtime.requests.notices",
        "Feed": "agent.runtime.ingest.feed",
        "JobListing": "agent.runtime.requests.status",
        "Mandate": "agent.runtime.model.mandate",
        "JobState": "agent.runtime.master.state",
        "CoreEvent": "agent.runtime.requests.notices",
        "PartStatus": "agent.runtime.requests.status",
        "Published": "agent.runtime.requests.notices",
        "Result": "agent.runtime.function.result",
        "SpillArea": "agent.runtime.function.spill",
        "StartError": "agent.errors",
        "StopAnswered": "agent.runtime.requests.notices",
        "StreamOptions": "agent.runtime.ingest.feed",
        "Submit": "agent.runtime.messages.jobs",
        "SubmitRefused": "agent.runtime.requests.notices",
        "Update": "agent.runtime.messages.jobs",
        "UpdateAnswered": "agent.runtime.requests.notices",
        "UpdateRefused": "agent.runtime.requests.notices",
        "check_revocations": "agent.daemon.own_identity",
        "load_config": "agent.configuration.config",
        "load_identity": "agent.daemon.own_identity",
        "mandate_digest": "agent.runtime.model.mandate",
        "run_agent": "agent.daemon.run",
        "signed_bytes": "agent.runtime.model.mandate",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "Accepted",
    "Acknowledged",
    "Agent",
    "AgentStatus",
    "Answered",
    "AskRefused",
    "Config",
    "ConfigError",
    "CoreEvent",
    "EmbeddedFleet",
    "Ended",
    "Feed",
    "JobListing",
    "JobState",
    "Mandate",
    "PartStatus",
    "Published",
    "Result",
    "SpillArea",
    "StartError",
    "StopAnswered",
    "StreamOptions",
    "Submit",
    "SubmitRefused",
    "Update",
    "UpdateAnswered",
    "UpdateRefused",
    "check_revocations",
    "load_config",
    "load_identity",
    "mandate_digest",
    "run_agent",
    "signed_bytes",
]
