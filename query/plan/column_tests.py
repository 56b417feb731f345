"""Picks the parts of WHERE that compare a column with a constant: readers of events can make these tests themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from query.model.expression import Constant, Operation, Reference
from query.model.like import literal_of
from query.plan.walk import conjuncts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from query.model.expression import Expression
    from query.plan.plan import Plan

Comparison: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">=", "begins with"]
_TURNED: dict[str, Comparison] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class PlanTest(NamedTuple):
    """A comparison of a column of the plan with a number or a text."""

    column: str
    comparison: Comparison
    constant: int | float | str


def where_clauses(plan: Plan) -> list[list[PlanTest]]:
    """Clauses that WHERE implies, each as tests one of which has to hold. Events that fail one are in no group; there
    may be more of WHERE than they say. Empty where events are counted before WHERE: where they are joined.

    >>> import query
    >>> text = "SELECT COUNT(*) FROM logs WHERE status BETWEEN 400 AND 499 AND path LIKE '/shop/%' AND a + b > 1"
    >>> plan = query.analyze(query.parse(text), {"logs": query.Schema({}, open=True)}, {})
    >>> [[tuple(test) for test in clause] for clause in where_clauses(plan)]
    [[('status', '>=', 400)], [('status', '<=', 499)], [('path', 'begins with', '/shop/')]]
    """
    if plan.join is not None or plan.branches:
        return []
    return [clause for condition in conjuncts(plan.where) for clause in _clauses(condition)]


def _clauses(condition: Expression) -> Iterator[list[PlanTest]]:
    match condition:
        case Operation(operator="between", operands=(operand, low, high)):
            for comparison, bound in ((">=", low), ("<=", high)):
                yield from _clauses(Operation(comparison, (operand, bound), "boolean"))
        case _:
            if tests := _alternatives(condition):
                yield tests


def _alternatives(condition: Expression) -> list[PlanTest]:
    """Tests one of which holds wherever the condition does; none where it says something else."""
    match condition:
        case Operation(operator="or", operands=operands):
            parts = [_alternatives(operand) for operand in operands]
            return [test for part in parts for test in part] if all(parts) else []
        case Operation(operator="in", operands=(Reference() as column, *constants)):
            known = [one for one in constants if not (isinstance(one, Constant) and one.value is None)]
            tests = [_test("=", column, one) for one in known]
            return [test for test in tests if test is not None] if None not in tests else []
        case Operation(operator="like", operands=(Reference() as column, Constant(value=str(pattern)) as constant)):
            place, literal = literal_of(pattern)
            test = None
            if place in ("start", "whole"):
                comparison: Comparison = "begins with" if place == "start" else "="
                test = _test(comparison, column, Constant(literal, constant.type))
        case Operation(operator="STARTS_WITH", operands=(Reference() as column, Constant() as constant)):
            test = _test("begins with", column, constant)
        case Operation(operator=operator, operands=(Reference() as column, Constant() as constant)) if (
            operator in _TURNED
        ):
            test = _test(_TURNED[_TURNED[operator]], column, constant)
        case Operation(operator=operator, operands=(Constant() as constant, Reference() as column)) if (
            operator in _TURNED
        ):
            test = _test(_TURNED[operator], column, constant)
        case _:
            test = None
    return [] if test is None else [test]


def _test(comparison: Comparison, column: Expression, constant: Expression) -> PlanTest | None:
    if not isinstance(column, Reference) or not isinstance(constant, Constant):
        return None
    value = constant.value
    if value is None or isinstance(value, bool) or constant.type == "timestamp":
        return None
    return PlanTest(column.name, comparison, value)
