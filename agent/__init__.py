"""The daemon's room: sources, parsers and the job runtime (worker, combiner, master)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.configuration.config import Config, ConfigError, load_config
    from agent.creators.mandate import Mandate, mandate_digest, signed_bytes
    from agent.daemon.own_identity import check_revocations, load_identity
    from agent.daemon.run import run_agent
    from agent.errors import StartError
    from agent.runtime.agent import Agent
    from agent.runtime.embedded import EmbeddedFleet
    from agent.runtime.feeds_wanted import Feed, StreamOptions
    from agent.runtime.master import Master
    from agent.runtime.messages import Submit, Update
    from agent.runtime.notices import (
        Accepted,
        Acknowledged,
        Answered,
        AskRefused,
        Ended,
        Notice,
        Published,
        StopAnswered,
        SubmitRefused,
        UpdateAnswered,
        UpdateRefused,
    )
    from agent.runtime.result import Result
    from agent.runtime.spill_room import SpillRoom
    from agent.runtime.status import AgentStatus, JobListing, PartStatus
else:
    # Loaded when first used: a client needs the control messages, and not Polars.
    _HOMES = {
        "Accepted": "agent.runtime.notices",
        "Acknowledged": "agent.runtime.notices",
        "Agent": "agent.runtime.agent",
        "AgentStatus": "agent.runtime.status",
        "Answered": "agent.runtime.notices",
        "AskRefused": "agent.runtime.notices",
        "Config": "agent.configuration.config",
        "ConfigError": "agent.configuration.config",
        "EmbeddedFleet": "agent.runtime.embedded",
        "Ended": "agent.runtime.notices",
        "Feed": "agent.runtime.feeds_wanted",
        "JobListing": "agent.runtime.status",
        "Mandate": "agent.creators.mandate",
        "Master": "agent.runtime.master",
        "Notice": "agent.runtime.notices",
        "PartStatus": "agent.runtime.status",
        "Published": "agent.runtime.notices",
        "Result": "agent.runtime.result",
        "SpillRoom": "agent.runtime.spill_room",
        "StartError": "agent.errors",
        "StopAnswered": "agent.runtime.notices",
        "StreamOptions": "agent.runtime.feeds_wanted",
        "Submit": "agent.runtime.messages",
        "SubmitRefused": "agent.runtime.notices",
        "Update": "agent.runtime.messages",
        "UpdateAnswered": "agent.runtime.notices",
        "UpdateRefused": "agent.runtime.notices",
        "check_revocations": "agent.daemon.own_identity",
        "load_config": "agent.configuration.config",
        "load_identity": "agent.daemon.own_identity",
        "mandate_digest": "agent.creators.mandate",
        "run_agent": "agent.daemon.run",
        "signed_bytes": "agent.creators.mandate",
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
    "EmbeddedFleet",
    "Ended",
    "Feed",
    "JobListing",
    "Mandate",
    "Master",
    "Notice",
    "PartStatus",
    "Published",
    "Result",
    "SpillRoom",
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
