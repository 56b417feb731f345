"""Who was to be in a published window, by name, and which version of its job made it."""

from __future__ import annotations

from dataclasses import dataclass

from agent.runtime.version_messages import Version


@dataclass(frozen=True, slots=True)
class Attendance:
    """All names, where a result has only so many of them."""

    version: Version
    expected: tuple[str, ...]
    missing: tuple[str, ...]
    partial: tuple[str, ...]
