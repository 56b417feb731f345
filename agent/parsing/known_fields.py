"""Learns the fields that the objects of a JSON file have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from agent.parsing.json_paths import Path, can_name_a_field

COLUMNS_MAX = 64
OBJECTS_MAX = 256
DEPTH_MAX = 8
NAME_CHARACTERS_MAX = 255


class KnownFields:
    """The paths of scalar fields (`columns`) and of objects that have fields.

    A list is a scalar here, and so is an object where the same field was a scalar, or that is nested too deeply.
    `is_complete`: the columns hold all values seen. A key with a dot has no column, since its name would be that of
    a nested field.
    """

    def __init__(self) -> None:
        self._has_value: dict[Path, bool] = {}
        self._objects: dict[Path, None] = {}
        self.is_complete = True

    @property
    def columns(self) -> list[Path]:
        return list(self._has_value)

    @property
    def objects(self) -> list[Path]:
        return list(self._objects)

    @property
    def paths(self) -> list[Path]:
        """The paths that a reader decodes: all columns, and objects without fields so far."""
        inner = {path[:length] for path in (*self._has_value, *self._objects) for length in range(1, len(path))}
        return [*self._has_value, *(path for path in self._objects if path not in inner)]

    def learn(self, events: Iterable[dict[str, Any]]) -> None:
        """Learns the fields of some events."""
        for event in events:
            self._learn(event, ())

    def knows_all(self, events: Sequence[dict[str, Any]]) -> bool:
        """Whether some events bring nothing new but values of known fields; if so they are learned."""
        before = self._has_value, self._objects, self.is_complete
        self._has_value, self._objects = dict(self._has_value), dict(self._objects)
        self.learn(events)
        knows = [*self._has_value] == [*before[0]] and (self._objects, self.is_complete) == before[1:]
        if not knows:
            self._has_value, self._objects, self.is_complete = before
        return knows

    def explains(self, kinds: Mapping[Path, Collection[type]]) -> bool:
        """Whether values of these types, without NULL, fit what is known of their paths."""
        return not any(self._is_news(path, kinds[path]) for path in kinds)

    def note_values(self, kinds: Mapping[Path, Collection[type]]) -> None:
        """Learns which columns have values."""
        self._has_value |= {path: True for path, found in kinds.items() if found and path in self._has_value}

    def _is_news(self, path: Path, kinds: Collection[type]) -> bool:
        if path in self._objects:
            return bool(kinds)
        return self.is_complete and dict in kinds

    def _learn(self, entry: dict[str, Any], prefix: Path) -> None:
        for key, value in entry.items():
            path = (*prefix, key)
            if type(value) is dict and self._is_object(path):
                self._objects[path] = None
                self._learn(value, path)
            elif path not in self._has_value or not self._has_value[path]:
                self._note_scalar(path, value is not None)

    def _is_object(self, path: Path) -> bool:
        """Whether an object at this path is taken apart."""
        if path in self._objects:
            return True
        is_too_much = len(path) >= DEPTH_MAX or len(self._objects) >= OBJECTS_MAX
        if self._has_value.get(path) or is_too_much or not _is_plain(path[-1]):
            self.is_complete = False
            return False
        self._has_value.pop(path, None)
        return True

    def _note_scalar(self, path: Path, has_value: bool) -> None:
        if path in self._objects:
            if not has_value:
                return
            self._close(path)
        if path in self._has_value or (len(self._has_value) < COLUMNS_MAX and _is_plain(path[-1])):
            self._has_value[path] = has_value
        else:
            self.is_complete = False

    def _close(self, path: Path) -> None:
        """Turns an object that also occurs as a scalar into one column; the fields inside lose theirs."""
        self.is_complete = False
        depth = len(path)
        self._objects = {one: None for one in self._objects if one[:depth] != path}
        self._has_value = {one: has for one, has in self._has_value.items() if one[:depth] != path}


def _is_plain(key: str) -> bool:
    return 0 < len(key) <= NAME_CHARACTERS_MAX and "." not in key and can_name_a_field(key)
