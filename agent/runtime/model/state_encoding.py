"""Encodes the state of a run once, for the disk and for every message that carries it."""

from __future__ import annotations

import polars as pl

import cbt


class StateEncoding:
    """The bytes of one frame, made when they are first asked for, in whatever thread."""

    __slots__ = ("_encoded", "_state")

    def __init__(self, state: pl.DataFrame, encoded: bytes | None = None) -> None:
        self._state = state
        self._encoded = encoded

    def is_of(self, state: pl.DataFrame) -> bool:
        """Whether it encodes this very frame; a run that was cut has another one."""
        return self._state is state

    @property
    def encoded(self) -> bytes:
        """The frame as bytes. O(bytes), the first time."""
        encoded = self._encoded
        if encoded is None:
            encoded = self._encoded = cbt.encode_frame(self._state)
        return encoded

    @property
    def is_made(self) -> bool:
        """Whether the bytes are there."""
        return self._encoded is not None

    def forget(self) -> None:
        """Frees the bytes; they can be made again."""
        self._encoded = None
