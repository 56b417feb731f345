"""Selects the streams an agent archives: its own as configured, and the results its masters publish."""

from __future__ import annotations

import glob
from pathlib import Path

from agent.configuration.config import ArchiveConfig, Config, StreamConfig
from agent.configuration.rules import is_chosen
from agent.sources.file.source import FileSource

RESULTS = "@results"
"""Name of the stream of published results in the archive."""


def results_directory(data_directory: Path) -> Path:
    """Folder of the files of published results."""
    return data_directory / "results"


def archived_streams(config: Config, archive: ArchiveConfig) -> dict[str, StreamConfig]:
    """The streams by name. Rows are known by their files and offsets, so only streams of files are archived."""
    chosen = {
        stream.name: stream
        for stream in config.streams
        if is_chosen(stream.name, archive.streams) and isinstance(stream.source, FileSource)
    }
    files = f"{glob.escape(str(results_directory(config.data_directory)))}/*.jsonl"
    return chosen | {RESULTS: StreamConfig(RESULTS, FileSource((files,)), "json", "time", "beginning")}
