"""Typed messages of jobs: frozen dataclasses under their names, as msgpack. Nothing is unpickled or imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from agent.programs.calls import BODY_BYTES_MAX, TypedMessage

Class = TypeVar("Class", bound=type)


class MessageError(Exception):
    """An object or data that is no message of this job; the text is one line."""


def message(kind: Class) -> Class:
    """Declares a frozen dataclass as a message between agents of a job, and between jobs. Raises MessageError."""
    name = getattr(kind, "__name__", repr(kind))
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise MessageError(f"{name} is no dataclass: put @dataclass(frozen=True) under @elf.message")
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise MessageError(f"{name} is not frozen: write @dataclass(frozen=True)")
    kind.__elf_message__ = True  # type: ignore[attr-defined]
    return kind


class Messages:
    """The message types of one job: the decorated classes among `names`.

    >>> @message
    ... @dataclasses.dataclass(frozen=True)
    ... class TopK:
    ...     products: list[str]
    >>> messages = Messages({"TopK": TopK})
    >>> messages.decode(messages.encode(TopK(["a"])))
    TopK(products=['a'])
    >>> messages.encode("a")
    Traceback (most recent call last):
    elf.job_messages.MessageError: str is no message: decorate a frozen dataclass with @elf.message
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        found = [kind for kind in names.values() if isinstance(kind, type) and "__elf_message__" in vars(kind)]
        self._types: dict[str, type] = {}
        for kind in found:
            if self._types.setdefault(kind.__name__, kind) is not kind:
                raise MessageError(f"{kind.__name__}: there are two messages of that name")

    def encode(self, message: object) -> TypedMessage:
        """Encodes a message. Raises MessageError."""
        name = type(message).__name__
        if self._types.get(name) is not type(message):
            raise MessageError(f"{name} is no message: decorate a frozen dataclass with @elf.message")
        try:
            body = msgspec.msgpack.encode(message)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise MessageError(f"{name} cannot be sent: {error}") from None
        if len(body) > BODY_BYTES_MAX:
            raise MessageError(f"{name} has {len(body):,} bytes, a message may have {BODY_BYTES_MAX:,}")
        return TypedMessage(name, body)

    def decode(self, message: TypedMessage) -> Any:
        """Decodes a message. Raises MessageError for an unknown type or a body that does not fit it."""
        kind = self._types.get(message.type)
        if kind is None:
            raise MessageError(f"{message.type[:80]}: this job has no message of that name")
        try:
            return msgspec.msgpack.decode(message.body, type=kind)
        except (msgspec.DecodeError, TypeError, ValueError, NameError, RecursionError) as error:
            raise MessageError(f"{message.type}: {error}") from None
