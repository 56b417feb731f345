"""The daemon's room: sources, parsers and the job runtime (worker, combiner, master)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.configuration.config import Config, ConfigError, load_config
    from agent.configuration.effective import effective_values
    from agent.configuration.rules import SERVICE_PORT, service_address
    from agent.configuration.schema import described_keys, key_table, shown_value
    from agent.daemon.own_identity import check_revocations, load_identity
    from agent.daemon.run import run_agent
    from agent.errors import StartError
    from agent.runtime.agent import Agent
    from agent.runtime.embedded import EmbeddedFleet
    from agent.runtime.function.result import WindowResult
    from agent.runtime.function.spill import SpillArea
    from agent.runtime.ingest.feed import Feed, StreamOptions
    from agent.runtime.master.state import JobState
    from agent.runtime.messages.client_events import Accepted, Acknowledged, Ended, PublishedWindow, WindowsLost
    from agent.runtime.messages.jobs import StopAnswer, Submit, Update, Updated
    from agent.runtime.model.mandate import Mandate, mandate_digest, signed_bytes
    from agent.runtime.requests.events import AgentObserver, AskRefused, SubmitRefused, UpdateRefused
    from agent.runtime.requests.status import AgentStatus, LocalJobStatus
else:
    # Loaded when first used: a client needs the control messages, and not Polars.
    _HOMES = {
        "Accepted": "agent.runtime.messages.client_events",
        "Acknowledged": "agent.runtime.messages.client_events",
        "Agent": "agent.runtime.agent",
        "AgentObserver": "agent.runtime.requests.events",
        "AgentStatus": "agent.runtime.requests.status",
        "AskRefused": "agent.runtime.requests.events",
        "Config": "agent.configuration.config",
        "ConfigError": "agent.configuration.config",
        "EmbeddedFleet": "agent.runtime.embedded",
        "Ended": "agent.runtime.messages.client_events",
        "Feed": "agent.runtime.ingest.feed",
        "JobState": "agent.runtime.master.state",
        "Mandate": "agent.runtime.model.mandate",
        "LocalJobStatus": "agent.runtime.requests.status",
        "PublishedWindow": "agent.runtime.messages.client_events",
        "WindowsLost": "agent.runtime.messages.client_events",
        "WindowResult": "agent.runtime.function.result",
        "SERVICE_PORT": "agent.configuration.rules",
        "SpillArea": "agent.runtime.function.spill",
        "StartError": "agent.errors",
        "StreamOptions": "agent.runtime.ingest.feed",
        "StopAnswer": "agent.runtime.messages.jobs",
        "Submit": "agent.runtime.messages.jobs",
        "SubmitRefused": "agent.runtime.requests.events",
        "Update": "agent.runtime.messages.jobs",
        "Updated": "agent.runtime.messages.jobs",
        "UpdateRefused": "agent.runtime.requests.events",
        "check_revocations": "agent.daemon.own_identity",
        "described_keys": "agent.configuration.schema",
        "effective_values": "agent.configuration.effective",
        "key_table": "agent.configuration.schema",
        "load_config": "agent.configuration.config",
        "load_identity": "agent.daemon.own_identity",
        "mandate_digest": "agent.runtime.model.mandate",
        "run_agent": "agent.daemon.run",
        "service_address": "agent.configuration.rules",
        "shown_value": "agent.configuration.schema",
        "signed_bytes": "agent.runtime.model.mandate",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "SERVICE_PORT",
    "Accepted",
    "Acknowledged",
    "Agent",
    "AgentObserver",
    "AgentStatus",
    "AskRefused",
    "Config",
    "ConfigError",
    "EmbeddedFleet",
    "Ended",
    "Feed",
    "JobState",
    "LocalJobStatus",
    "Mandate",
    "PublishedWindow",
    "SpillArea",
    "StartError",
    "StopAnswer",
    "StreamOptions",
    "Submit",
    "SubmitRefused",
    "Update",
    "UpdateRefused",
    "Updated",
    "WindowResult",
    "WindowsLost",
    "check_revocations",
    "described_keys",
    "effective_values",
    "key_table",
    "load_config",
    "load_identity",
    "mandate_digest",
    "run_agent",
    "service_address",
    "shown_value",
    "signed_bytes",
]
