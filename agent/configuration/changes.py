"""Compares configurations: what a reload puts in force, and what has to wait for a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.configuration.config import Config
from agent.configuration.effective import effective_values
from agent.configuration.faults import spelled
from agent.configuration.schema import LIVE_KEYS, shown_value
from agent.configuration.toml_lines import KeyPath

_BY_NAME = ("streams", "tables")


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """`config` is in force after the reload. `applied` and `waiting` have a line for each change: those that it puts
    in force, and those that need a restart."""

    config: Config
    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def config_changes(started: Config, current: Config, new: Config) -> ConfigChanges:
    """Compares a new configuration with those that the agent was `started` with, and has in force (`current`)."""
    live = dict(LIVE_KEYS)
    if (started.sealed_disk_bytes == 0) != (new.sealed_disk_bytes == 0):
        del live["sealed_disk"]  # what is sealed is on disk from the start of the agent, or never
    applied = [
        *_value_changes(_values(current), _values(new), [key for key in live if key not in _BY_NAME]),
        *_named_changes("stream", {one.name: one for one in current.streams}, {one.name: one for one in new.streams}),
        *_named_changes("table", {one.name: one for one in current.tables}, {one.name: one for one in new.tables}),
    ]
    before, after = _values(started), _values(new)
    fixed = {str(path[0]) for path in (*before, *after)} - live.keys()
    in_force = replace(started, **{field: getattr(new, field) for key, field in LIVE_KEYS.items() if key in live})
    return ConfigChanges(
        replace(in_force, layers=new.layers), tuple(applied), tuple(_value_changes(before, after, fixed))
    )


def _values(config: Config) -> dict[KeyPath, Any]:
    return {one.path: one.value for one in effective_values(config.layers)}


def _value_changes(before: Mapping[KeyPath, Any], after: Mapping[KeyPath, Any], keys: Iterable[str]) -> list[str]:
    chosen = set(keys)
    paths = dict.fromkeys(path for path in (*before, *after) if path[0] in chosen)
    return [
        f"{spelled(path)}: {_told(after, path)} (was {_told(before, path)})"
        for path in paths
        if (path in before, before.get(path)) != (path in after, after.get(path))
    ]


def _told(values: Mapping[KeyPath, Any], path: KeyPath) -> str:
    return "not set" if values.get(path) is None else shown_value(values[path])


def _named_changes(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Changes of things that have names, wherever they stand."""
    lines = [f"{what} {name}: removed" for name in before if name not in after]
    lines += [f"{what} {name}: added" for name in after if name not in before]
    lines += [f"{what} {name}: changed" for name, one in after.items() if name in before and before[name] != one]
    return lines
