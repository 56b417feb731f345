"""The cost of an expression: approximate nanoseconds for each event. Some of the figures were measured with `python -m
benchmarks.query`; those of addresses, user agents and times are estimates.

Costs are good enough to order conditions, and to decide which results are worth keeping.
"""

from __future__ import annotations

from query.functions import FAMILIES
from query.model.expression import Expression, Operation
from query.model.types import ARITHMETIC, CASTS, COMPARISONS

_OF_OPERATORS = {
    **dict.fromkeys(COMPARISONS, 2.0),
    **dict.fromkeys(ARITHMETIC, 3.0),
    **dict.fromkeys(CASTS, 20.0),
    "and": 0.2,
    "or": 0.2,
    "not": 0.2,
    "is_null": 0.2,
    "filter": 1.0,
    "between": 2.0,
    "in": 4.0,
    "case": 5.0,
    "switch": 6.0,
    "negate": 2.0,
    "||": 40.0,
    "values": 250.0,
    "ilike": 120.0,
    "rlike": 60.0,
}
_OF_FAMILIES = {
    "Choosing": 10.0,
    "Texts": 30.0,
    "Regular expressions": 130.0,
    "Numbers": 5.0,
    "Times": 10.0,
    "URLs": 250.0,
    "JSON": 800.0,
    "IP addresses": 250.0,
    "User agents": 800.0,
}
_OF_FUNCTIONS = {one.name: _OF_FAMILIES[name] for name, family in FAMILIES.items() for one in family}
_OF_TEXTS = 5.0
_LIKE, _LIKE_ANYWHERE = 15.0, 45.0


def cost(expression: Expression) -> float:
    """Nanoseconds for each event, roughly; linear in the expression's size."""
    if not isinstance(expression, Operation):
        return 0.0
    return _own_cost(expression) + sum(map(cost, expression.operands))


def _own_cost(call: Operation) -> float:
    operator, operands = call.operator, call.operands
    if operator == "like":
        return _LIKE_ANYWHERE if "%" in str(getattr(operands[1], "value", None))[:-1] else _LIKE
    compares = operator in COMPARISONS or operator in ("in", "between")
    of_texts = _OF_TEXTS if compares and operands[0].type in ("string", "any") else 0.0
    return of_texts + (_OF_FUNCTIONS[operator] if operator in _OF_FUNCTIONS else _OF_OPERATORS[operator])
