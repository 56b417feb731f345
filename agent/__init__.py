"""The daemon's room: sources, parsers and the job runtime (worker, combiner, master)."""

from agent.agent import Agent, stream_group
from agent.embedded import EmbeddedFleet
from agent.master import Master
from agent.messages import Submit
from agent.result import Result

__all__ = ["Agent", "EmbeddedFleet", "Master", "Result", "Submit", "stream_group"]
