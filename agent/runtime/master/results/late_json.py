"""The JSON of results, made when somebody reads it where that may never be."""

from __future__ import annotations

from typing import TypeAlias

from agent.runtime.function.result import WindowResult


class LateJson:
    """The JSON of one result. `size`: its size (bytes) or, as long as it is not made, that of what it is made of."""

    def __init__(self, result: WindowResult, bytes_max: int, size: int) -> None:
        self._result: WindowResult | None = result
        self._bytes_max = bytes_max
        self._json = b""
        self.size = size

    @property
    def json(self) -> bytes:
        """The JSON line, as `WindowResult.to_bytes` has it."""
        if self._result is not None:
            self._json, self._result = self._result.to_bytes(self._bytes_max), None
        return self._json


ResultJson: TypeAlias = bytes | LateJson
"""A result as JSON, made or not."""


def json_of(result: ResultJson) -> bytes:
    """The JSON itself."""
    return result.json if isinstance(result, LateJson) else result


def size_of(result: ResultJson) -> int:
    """The bytes that it takes."""
    return result.size if isinstance(result, LateJson) else len(result)
