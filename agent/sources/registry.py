"""Registry of sources: one row each. A new source is a file with its options and its `EventSource`, and a row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agent.sources.file.source import FileOptions, build_file_source
from agent.sources.reader import EventSource

DEFAULT_SOURCE = "file"


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One row: the name that `source = "..."` gives in `agent.toml`, and what it stands for."""

    name: str
    options: type[msgspec.Struct]
    """The keys of a stream that belong to its source; their types and rules check their values."""
    build: Callable[[Any, Path], EventSource]
    """Makes a source of its options; relative paths start at the given folder."""


SOURCES: dict[str, SourceKind] = {row.name: row for row in (SourceKind("file", FileOptions, build_file_source),)}
