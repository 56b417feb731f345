"""Lists the values of a configuration, each with the place it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import msgspec

from agent.configuration.document import ConfigDocument, StreamKeys
from agent.configuration.faults import bare, is_struct, spelled
from agent.configuration.layers import Layers
from agent.configuration.toml_lines import KeyPath
from agent.sources.registry import DEFAULT_SOURCE, SOURCES

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One value; `origin` is `FILE:LINE`, a variable of the environment, or `default`."""

    path: KeyPath
    value: Any
    origin: str

    @property
    def key(self) -> str:
        """The key as sentences spell it: `streams[0].paths`."""
        return spelled(self.path)


def effective_values(layers: Layers, *, defaults: bool = True) -> list[EffectiveValue]:
    """The values of a configuration without faults; with `defaults`, those of keys that are not set as well."""
    return list(_table(layers, layers.document, (), (ConfigDocument,), defaults))


def _table(
    layers: Layers, table: Mapping[str, Any], path: KeyPath, kinds: tuple[type[msgspec.Struct], ...], defaults: bool
) -> Iterator[EffectiveValue]:
    for field in (field for kind in kinds for field in msgspec.structs.fields(kind)):
        name, inner = field.encode_name, bare(field.type)
        at, value = (*path, name), table.get(name)
        if at == ("streams",):
            for number, stream in enumerate(value or ()):
                source = SOURCES[stream.get("source", DEFAULT_SOURCE)]
                yield from _table(layers, stream, (*at, number), (StreamKeys, source.options), defaults)
        elif is_struct(inner):
            if value is not None:
                yield from _table(layers, value, at, (inner,), defaults)
        elif get_origin(inner) is dict:
            for key, one in (value or {}).items():
                yield from _table(layers, one, (*at, key), (bare(get_args(inner)[1]),), defaults)
        elif get_origin(inner) is list and is_struct(element := bare(get_args(inner)[0])):
            for number, one in enumerate(value or ()):
                yield from _table(layers, one, (*at, number), (element,), defaults)
        elif name in table:
            origin = layers.origin(at)
            yield EffectiveValue(at, value, DEFAULT if origin is None else origin.at)
        elif defaults:
            yield EffectiveValue(at, default_of(field), DEFAULT)


def default_of(field: Any) -> Any:
    """The value of a key that is not set."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
