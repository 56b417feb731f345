"""The daemon's room: sources, parsers and the job runtime (worker, combiner, master)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.config import Config, ConfigError, load_config
    from agent.daemon import run_agent
    from agent.embedded import EmbeddedFleet
    from agent.errors import StartError
    from agent.feeds_wanted import Feed, StreamOptions
    from agent.master import Master
    from agent.messages import Submit
    from agent.notices import Accepted, Acknowledged, Ended, Notice, Published, StopAnswered, SubmitRefused
    from agent.own_identity import load_identity
    from agent.result import Result
    from agent.status import AgentStatus, JobListing, PartStatus
else:
    # Loaded when first used: a client needs the control messages, and not Polars.
    _HOMES = {
        "Accepted": "agent.notices",
        "Acknowledged": "agent.notices",
        "Agent": "agent.agent",
        "AgentStatus": "agent.status",
        "Config": "agent.config",
        "ConfigError": "agent.config",
        "EmbeddedFleet": "agent.embedded",
        "Ended": "agent.notices",
        "Feed": "agent.feeds_wanted",
        "JobListing": "agent.status",
        "Master": "agent.master",
        "Notice": "agent.notices",
        "PartStatus": "agent.status",
        "Published": "agent.notices",
        "Result": "agent.result",
        "StartError": "agent.errors",
        "StopAnswered": "agent.notices",
        "StreamOptions": "agent.feeds_wanted",
        "Submit": "agent.messages",
        "SubmitRefused": "agent.notices",
        "load_config": "agent.config",
        "load_identity": "agent.own_identity",
        "run_agent": "agent.daemon",
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
    "Config",
    "ConfigError",
    "EmbeddedFleet",
    "Ended",
    "Feed",
    "JobListing",
    "Master",
    "Notice",
    "PartStatus",
    "Published",
    "Result",
    "StartError",
    "StopAnswered",
    "StreamOptions",
    "Submit",
    "SubmitRefused",
    "load_config",
    "load_identity",
    "run_agent",
]
