"""Describes every key of the configuration from the structs that check it: type, default, meaning, and how it changes.

The documentation has the table that `key_table` makes, and `elf config schema` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import msgspec

from agent.configuration.document import ConfigDocument, StreamKeys
from agent.configuration.effective import default_of
from agent.configuration.faults import bare, is_struct, metas
from agent.configuration.rules import (
    check_address,
    check_days,
    check_reachable,
    heal_retention_ms,
    max_skew_ms,
    memory_bytes,
    sealed_disk_bytes,
    seed_entry,
    service_address,
)
from agent.configuration.toml_lines import KeyPath
from agent.sources.options import RULE, check_path
from agent.sources.registry import SOURCES

PREFIX = "ELF_AGENT_"
LIVE_KEYS: dict[str, str] = {
    "access": "access", "archive": "archive", "copies": "copies", "heal_retention": "heal_ms",
    "job_memory": "job_memory_bytes",
    "log_level": "log_level", "max_skew": "max_skew_ms", "program_memory": "program_memory_bytes",
    "sealed_disk": "sealed_disk_bytes", "spill_disk": "spill_disk_bytes", "streams": "streams", "tables": "tables",
}  # fmt: skip
"""Keys and sections that a reload puts in force, with their fields of `Config`; all others need a restart."""
_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_KINDS: dict[object, str] = {
    check_path: "path", check_address: "host:port", check_reachable: "host:port", service_address: "host:port",
    seed_entry: "seed",
    check_days: "days",
    memory_bytes: "size", sealed_disk_bytes: "size", max_skew_ms: "time", heal_retention_ms: "time",
}  # fmt: skip
"""Names of types by the rules that check them."""


@dataclass(frozen=True, slots=True)
class KeyDescription:
    """One key. `section` is how its table begins, "" at the top; `default` is None where the key is required."""

    path: str
    section: str
    type: str
    default: str | None
    meaning: str
    is_live: bool
    """Whether a reload puts a new value in force."""
    variable: str | None
    """The variable of the environment that overrides it; None in lists and tables of tables."""


def described_keys() -> list[KeyDescription]:
    """All keys, in the order in which they are declared: those without a section first."""
    return sorted(_walk(ConfigDocument, (), ""), key=lambda key: bool(key.section))


def overrides() -> dict[str, tuple[KeyPath, Any]]:
    """The variables of the environment that override keys, with the key and its type."""
    return dict(_overrides(ConfigDocument, ()))


def _overrides(kind: type[msgspec.Struct], path: KeyPath) -> Iterator[tuple[str, tuple[KeyPath, Any]]]:
    for field in msgspec.structs.fields(kind):
        at, inner = (*path, field.encode_name), bare(field.type)
        if is_struct(inner):
            yield from _overrides(inner, at)
        elif _has_values(inner):
            yield variable_of(at), (at, field.type)


def variable_of(path: KeyPath) -> str:
    """The variable that overrides a key.

    >>> variable_of(("identity", "key_password_file"))
    'ELF_AGENT_IDENTITY_KEY_PASSWORD_FILE'
    """
    return PREFIX + "_".join(str(part).upper() for part in path)


def _has_values(kind: Any) -> bool:
    """Whether a key has one value or a list of them, and not tables."""
    element = bare(get_args(kind)[0]) if get_origin(kind) is list else kind
    return not is_struct(element) and dict not in (get_origin(element), get_origin(kind))


def _walk(
    kind: type[msgspec.Struct], path: tuple[str, ...], section: str, *, is_alone: bool = True
) -> Iterator[KeyDescription]:
    """The keys of a table; `is_alone`: there is no other of its kind."""
    for field in msgspec.structs.fields(kind):
        at, inner = (*path, field.encode_name), bare(field.type)
        if at == ("streams",):
            kinds: list[type[msgspec.Struct]] = [StreamKeys, *(row.options for row in SOURCES.values())]
            for keys in kinds:
                yield from _walk(keys, at, "[[streams]]", is_alone=False)
        elif is_struct(inner):
            yield from _walk(inner, at, f"[{field.encode_name}]", is_alone=is_alone)
        elif get_origin(inner) is dict:
            yield from _walk(bare(get_args(inner)[1]), at, f"[{field.encode_name}.NAME]", is_alone=False)
        elif not _has_values(inner):
            yield from _walk(bare(get_args(inner)[0]), at, f"[[{field.encode_name}]]", is_alone=False)
        else:
            yield KeyDescription(
                ".".join(at), section, _type_name(field.type), _default(field), _meaning(field.type),
                at[0] in LIVE_KEYS, variable_of(at) if is_alone else None,
            )  # fmt: skip


def _meaning(kind: Any) -> str:
    return next((meta.description for meta in metas(kind) if meta.description), "")


def _type_name(kind: Any) -> str:
    inner = bare(kind)
    if get_origin(inner) is list:
        return f"list of {_type_name(get_args(inner)[0])}s"
    if get_origin(inner) is Literal:
        return " or ".join(get_args(inner))
    for meta in metas(kind):
        if meta.extra and (name := _KINDS.get(meta.extra.get(RULE))) is not None:
            return name
    return _NAMES.get(inner, "text")


def _default(field: Any) -> str | None:
    if field.required:
        return None
    default = default_of(field)
    return "none" if default is None else shown_value(default)


def shown_value(value: Any) -> str:
    """A value as `agent.toml` would have it.

    >>> shown_value(["web", "api-*"]), shown_value(30)
    ('["web", "api-*"]', '30')
    """
    return json.dumps(value, ensure_ascii=False, default=str)


def key_table() -> str:
    """The table of all keys for the documentation."""
    rows = ["| key | type | default | reload | meaning |", "|---|---|---|---|---|"]
    for key in described_keys():
        default = "required" if key.default is None else key.default if key.default == "none" else f"`{key.default}`"
        live = "yes" if key.is_live else "no"
        rows.append(f"| `{key.path}` | {key.type} | {default} | {live} | {key.meaning} |")
    return "\n".join(rows) + "\n"
