"""Expressions of a plan: names resolved, every node with its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of one type; a timestamp is epoch milliseconds, None is NULL of any type."""

    value: int | float | str | bool | None
    type: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A column of the event, or a key, aggregate or window bound, by its name in the plan."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator of `query.model.types`, or a function of `query.functions`, over its operands."""

    operator: str
    operands: tuple[Expression, ...]
    type: str


Expression: TypeAlias = Constant | Reference | Operation


def references(expression: Expression) -> Iterator[Reference]:
    """Every reference in an expression, left to right, repeated as often as it is there."""
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Reference):
            yield node
        elif isinstance(node, Operation):
            pending.extend(reversed(node.operands))


def calls(expression: Expression) -> Iterator[Operation]:
    """Every operation in an expression, in no order, repeated as often as it is there."""
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Operation):
            yield node
            pending.extend(node.operands)


def encode_expression(expression: Expression) -> object:
    """A reference as a name, a constant as `["value", type, value]`, a call as `[operator, ...]`."""
    match expression:
        case Reference(name=name):
            return name
        case Constant(value=value, type=type_):
            return ["value", type_, value]
        case Operation(operator=operator, operands=operands):
            return [operator, *map(encode_expression, operands)]
