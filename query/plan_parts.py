"""The parts of a plan that name what is computed: keys, arguments, aggregates, outputs and the order of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from query.aggregates import Parameters
    from query.expression import Expression


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    expression: Expression

    @property
    def type(self) -> str:
        """The type of its values."""
        return self.expression.type


@dataclass(frozen=True, slots=True)
class PlanKey(_Named):
    """One GROUP BY expression under the name it has from the events to the result: k0, k1 ..."""


@dataclass(frozen=True, slots=True)
class Argument(_Named):
    """What one or more aggregates read of each event: x0, x1 ..."""


@dataclass(frozen=True, slots=True)
class Output(_Named):
    """One column of the result under the name people see."""


@dataclass(frozen=True, slots=True)
class PlanAggregate:
    """An aggregate (a0, a1 ...): its function, a key of `query.aggregates.AGGREGATES` in small letters, and the name of
    its argument.

    `argument` is None for COUNT(*). `type` is the argument's type, "integer" for COUNT(*).
    """

    name: str
    function: str
    argument: str | None
    type: str
    parameters: Parameters = ()


@dataclass(frozen=True, slots=True)
class PlanOrder:
    """One key of ORDER BY; NULL is last either way unless it is to be first."""

    expression: Expression
    descending: bool
    nulls_first: bool = False
