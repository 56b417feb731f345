"""SQL's expressions in plain Python, one row at a time, to check the real thing against."""

from __future__ import annotations

import math
import re

from query.syntax import ast


def compare(operator, left, right):
    if left is None or right is None:
        return None
    if kind(left) != kind(right):
        return operator == "<>"
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def kind(value):
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def arithmetic(operator, left, right):
    if left is None or right is None:
        return None
    if operator == "/":
        return finite(divide(float(left), float(right)))
    if isinstance(left, int) and isinstance(right, int):
        return whole(operator, left, right)
    left, right = float(left), float(right)
    if operator == "%":
        return None if right == 0 else math.fmod(left, right)
    if operator == "//":
        quotient = divide(left, right)
        return None if finite(quotient) is None else float(math.trunc(quotient))
    return finite({"+": left + right, "-": left - right, "*": left * right}[operator])


def whole(operator, left, right):
    if operator in ("//", "%"):
        if right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        result = quotient if operator == "//" else left - quotient * right
    else:
        result = {"+": left + right, "-": left - right, "*": left * right}[operator]
    return result if -(2**63) <= result < 2**63 else None


def divide(left, right):
    return math.nan if right == 0 else left / right


def finite(value):
    return value if math.isfinite(value) else None


def logical(operator, values):
    decisive = operator == "OR"
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def negated(value):
    return None if value is None else not value


def like(text, pattern):
    if text is None:
        return None
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return bool(re.fullmatch("".join(wild.get(t) or re.escape(t[-1]) for t in tokens), text, re.DOTALL))


def evaluate(node, row):
    match node:
        case ast.Literal(value=value):
            return value
        case ast.ColumnRef(parts=parts):
            return row[parts[0]]
        case ast.Unary(operator="NOT", operand=operand):
            return negated(evaluate(operand, row))
        case ast.Unary(operand=operand):
            value = evaluate(operand, row)
            return arithmetic("-", 0, value) if isinstance(value, int) else None if value is None else -value
        case ast.Binary(operator=operator, left=left, right=right):
            apply = compare if operator in ("=", "<>", "<", "<=", ">", ">=") else arithmetic
            return apply(operator, evaluate(left, row), evaluate(right, row))
        case ast.Logical(operator=operator, operands=operands):
            return logical(operator, [evaluate(operand, row) for operand in operands])
        case ast.IsNull(operand=operand, negated=negation):
            return (evaluate(operand, row) is None) != negation
        case ast.In(operand=operand, items=items, negated=negation):
            value = evaluate(operand, row)
            result = logical("OR", [compare("=", value, evaluate(item, row)) for item in items])
            return negated(result) if negation else result
        case ast.Like(operand=operand, pattern=pattern, negated=negation):
            result = like(evaluate(operand, row), pattern.value)
            return negated(result) if negation else result
    raise AssertionError(node)
