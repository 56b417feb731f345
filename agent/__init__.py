"""The daemon's room: sources, parsers and the job runtime (worker, combiner, master)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.agent import Agent, stream_group
    from agent.embedded import EmbeddedFleet
    from agent.master import Master
    from agent.messages import Submit
    from agent.result import Result
else:
    # Loaded when first used: a client needs the control messages, and not Polars.
    _HOMES = {
        "Agent": "agent.agent",
        "EmbeddedFleet": "agent.embedded",
        "Master": "agent.master",
        "Result": "agent.result",
        "Submit": "agent.messages",
        "stream_group": "agent.agent",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = ["Agent", "EmbeddedFleet", "Master", "Result", "Submit", "stream_group"]
