"""The JSON of results, made when somebody reads it where that may never be."""

from __future__ import annotations

from typing import TypeAlias

from agent.runtime.function.result import WindowResult


class LateJson:
    """The JSON of one result. `size`: its size (bytes) or, as long as it is not made, that of what it is made of."""

    def __init__(self, result: WindowResult, bytes_max: int, size: int, last_fields: bytes = b"") -> None:
        self._result: WindowResult | None = result
        self._bytes_max = bytes_max
        self._json, self._last_fields = b"", last_fields
        self.size = size

    def ending_with(self, fields: bytes) -> LateJson:
        """This JSON with the fields of another object at its end, of a result whose JSON is not made yet."""
        assert self._result is not None
        return LateJson(self._result, self._bytes_max, self.size + len(fields), fields)

    @property
    def json(self) -> bytes:
        """The JSON line, as `WindowResult.to_bytes` has it."""
        if self._result is not None:
            json = self._result.to_bytes(self._bytes_max)
            self._json, self._result = ending_with(json, self._last_fields) if self._last_fields else json, None
        return self._json


ResultJson: TypeAlias = bytes | LateJson
"""A result as JSON, made or not."""


def ending_with(json: bytes, fields: bytes) -> bytes:
    """A JSON object with the fields of another one at its end.

    >>> ending_with(b'{"events":3}', b'{"met":true}')
    b'{"events":3,"met":true}'
    """
    return json[:-1] + b"," + fields[1:]


def json_of(result: ResultJson) -> bytes:
    """The JSON itself."""
    return result.json if isinstance(result, LateJson) else result


def size_of(result: ResultJson) -> int:
    """The bytes that it takes."""
    return result.size if isinstance(result, LateJson) else len(result)
