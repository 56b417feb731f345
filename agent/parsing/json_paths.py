"""Reads chosen paths from JSON objects with structs generated for exactly these paths.

A struct decodes its own fields and skips the rest of the object unbuilt. A node that is wanted as a value
*and* has wanted parts below it is decoded whole, as a dict.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec

Path = tuple[str, ...]

DECODE_ERRORS = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)


class PathReader:
    """Decodes JSON objects as far as the given paths need it, and reads the paths' columns from them.

    A strict reader refuses fields on no path, and scalars where a path goes on, provided that all keys of the paths
    `can_name_a_field`.
    """

    def __init__(self, paths: Iterable[Path], *, is_strict: bool = False) -> None:
        self._root = _Node(is_strict)
        for path in paths:
            self._root.add(path)
        self._type = self._root.build()
        decoder = msgspec.json.Decoder(self._type)
        self.decode = decoder.decode  # one object; raises DECODE_ERRORS
        self.decode_lines = decoder.decode_lines  # any number of them, whatever the white space between them
        self._whole = msgspec.json.Decoder(dict[str, Any], float_hook=float)  # 1e400 becomes infinite, no error

    def decode_leniently(self, line: bytes) -> list[Any]:
        """The objects on a line, also if they hold numbers beyond a double. Slow. Raises DECODE_ERRORS."""
        return [msgspec.convert(entry, self._type) for entry in self._whole.decode_lines(line)]

    def read(self, objects: list[Any]) -> dict[Path, list[Any]]:
        """The values of every path in the decoded objects; None where an object has none."""
        found: dict[Path, list[Any]] = {}
        self._root.read(objects, (), found)
        return found


class _Node:
    """The fields wanted at one place of the objects and below it."""

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._wanted = False
        self._children: dict[str, _Node] = {}
        self._struct: type[msgspec.Struct] | None = None  # None: what is here is decoded as plain values

    def add(self, path: Path) -> None:
        if path:
            self._children.setdefault(path[0], _Node(self._is_strict)).add(path[1:])
        else:
            self._wanted = True

    def build(self) -> Any:
        """The type to decode objects at this place into."""
        if self._wanted or not all(map(can_name_a_field, self._children)):
            return dict[str, Any]
        fields = [(f"f{index}", child.field_type(), None) for index, child in enumerate(self._children.values())]
        names = {f"f{index}": key for index, key in enumerate(self._children)}
        self._struct = msgspec.defstruct("Node", fields, rename=names, gc=False, forbid_unknown_fields=self._is_strict)
        return self._struct

    def field_type(self) -> Any:
        """A type that every JSON value fits, or every object."""
        if not self._children or self.build() == dict[str, Any]:
            return Any
        assert self._struct is not None
        return self._struct | None if self._is_strict else self._struct | str | int | float | bool | list[Any] | None

    def read(self, nodes: list[Any], path: Path, found: dict[Path, list[Any]]) -> None:
        if self._wanted:
            found[path] = nodes
        for index, (key, child) in enumerate(self._children.items()):
            child.read(self._column(nodes, index, key, is_root=not path), (*path, key), found)

    def _column(self, nodes: list[Any], index: int, key: str, *, is_root: bool) -> list[Any]:
        if self._struct is None:
            return [node.get(key) if type(node) is dict else None for node in nodes]
        field, struct = attrgetter(f"f{index}"), self._struct
        if is_root:
            return list(map(field, nodes))
        return [field(node) if type(node) is struct else None for node in nodes]


def can_name_a_field(key: str) -> bool:
    """Whether a struct's field can stand for the key."""
    return not any(character in '"\\' or character < " " or "\ud800" <= character <= "\udfff" for character in key)
