"""Which streams an agent archives."""

from __future__ import annotations

from agent.configuration.config import ArchiveConfig, Config, StreamConfig
from agent.configuration.rules import is_chosen


def archived_streams(config: Config, archive: ArchiveConfig) -> dict[str, StreamConfig]:
    """By name."""
    return {stream.name: stream for stream in config.streams if is_chosen(stream.name, archive.streams)}
