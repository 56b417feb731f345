"""Typed messages of jobs: frozen dataclasses under their names, as msgpack. Nothing is ever unpickled or imported."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

from agent.programs.calls import BODY_BYTES_MAX, Typed

Class = TypeVar("Class", bound=type)


class MessageError(Exception):
    """What is no message of this job, in one line."""


class Messages:
    """The types one job has registered.

    >>> messages = Messages()
    >>> @messages.register
    ... @dataclasses.dataclass(frozen=True)
    ... class TopK:
    ...     products: list[str]
    >>> messages.decode(messages.encode(TopK(["a"])))
    TopK(products=['a'])
    >>> messages.encode("a")
    Traceback (most recent call last):
    elf.job_messages.MessageError: str is no message: decorate a frozen dataclass with @elf.message
    """

    def __init__(self) -> None:
        self._types: dict[str, type] = {}

    def register(self, kind: Class) -> Class:
        """Lets objects of a class travel. Raises MessageError where it is no frozen dataclass, or its name is taken."""
        if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
            raise MessageError(
                f"{getattr(kind, '__name__', kind)} is no dataclass: put @dataclass(frozen=True) under @elf.message"
            )
        if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise MessageError(f"{kind.__name__} is not frozen: write @dataclass(frozen=True)")
        if self._types.setdefault(kind.__name__, kind) is not kind:
            raise MessageError(f"{kind.__name__}: there is a message of that name already")
        return kind

    def encode(self, message: object) -> Typed:
        """A message as it travels. Raises MessageError."""
        name = type(message).__name__
        if self._types.get(name) is not type(message):
            raise MessageError(f"{name} is no message: decorate a frozen dataclass with @elf.message")
        try:
            body = msgspec.msgpack.encode(message)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise MessageError(f"{name} cannot be sent: {error}") from None
        if len(body) > BODY_BYTES_MAX:
            raise MessageError(f"{name} has {len(body):,} bytes, a message may have {BODY_BYTES_MAX:,}")
        return Typed(name, body)

    def decode(self, message: Typed) -> Any:
        """What came. Raises MessageError where its type is not registered here, or it does not hold what it should."""
        kind = self._types.get(message.type)
        if kind is None:
            raise MessageError(f"{message.type[:80]}: no message of that name is registered here")
        try:
            return msgspec.msgpack.decode(message.body, type=kind)
        except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
            raise MessageError(f"{message.type}: {error}") from None

    def clear(self) -> None:
        """Forgets all types: another job's code is about to be loaded."""
        self._types.clear()


MESSAGES = Messages()
"""Those of the one job whose code runs in this process."""
message = MESSAGES.register
