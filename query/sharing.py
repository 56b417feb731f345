"""What several expressions of a plan have in common, and is worth computing once for each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.expression import Call
from query.rewrite.cost import cost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from query.expression import Expression

WORTH_NS = 5.0
"""What costs less for an event is computed again rather than kept."""


def shared_calls(expressions: Iterable[Expression]) -> frozenset[Call]:
    """The calls that are there more than once, without those that are only part of such a one. O(n · depth)."""
    seen: set[Call] = set()
    shared: set[Call] = set()
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        if not isinstance(expression, Call) or expression in shared:
            continue
        if expression in seen and cost(expression) >= WORTH_NS:
            shared.add(expression)
            continue
        seen.add(expression)
        pending.extend(expression.operands)
    return frozenset(shared)
