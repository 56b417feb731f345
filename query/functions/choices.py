"""Functions that give one of their arguments."""

from __future__ import annotations

import polars as pl

from query.functions.function import Arguments, ScalarFunction, in_one_kind
from query.physical.values import NULL, Value


def _first_known(arguments: Arguments) -> Value:
    expressions, kind = in_one_kind(arguments.values)
    return NULL if kind == "null" else arguments.result(pl.coalesce(expressions), kind)


def _extreme(*, greatest: bool) -> ScalarFunction:
    def compute(arguments: Arguments) -> Value:
        expressions, kind = in_one_kind([value for value in arguments.values if value.kind != "null"])
        if not expressions:
            return NULL
        if kind == "boolean":
            expressions = [expression.cast(pl.Int8) for expression in expressions]
        chosen = (pl.max_horizontal if greatest else pl.min_horizontal)(expressions)
        return arguments.result(chosen.cast(pl.Boolean) if kind == "boolean" else chosen, kind)

    name, word, result = ("GREATEST", "greatest", "3") if greatest else ("LEAST", "least", "1")
    doc = f"the {word} of several values, passing over NULL"
    return ScalarFunction(name, "values...: same", "same", compute, doc, f"{name}(3, NULL, 1)", result, strict=False)


def _null_if(arguments: Arguments) -> Value:
    one, other = arguments.bound(0), arguments.values[1]
    if one.kind == "null" or other.kind == "null":
        return one
    expressions, _ = in_one_kind([one, other])
    differs = (expressions[0] != expressions[1]).fill_null(True)
    return arguments.result(pl.when(differs).then(one.expression), one.kind)


def _if(arguments: Arguments) -> Value:
    expressions, kind = in_one_kind(arguments.values[1:])
    if kind == "null":
        return NULL
    condition = arguments.values[0].as_boolean()
    return arguments.result(pl.when(condition).then(expressions[0]).otherwise(expressions[1]), kind)


FUNCTIONS = (
    ScalarFunction(
        "COALESCE", "values...: same", "same", _first_known,
        "the first value that is not NULL", "COALESCE(NULL, 2, 3)", "2", strict=False,
    ),
    ScalarFunction(
        "IFNULL", "value: same, otherwise: same", "same", _first_known,
        "a value, or another one in place of NULL", "IFNULL(NULL, 'none')", '"none"', strict=False,
    ),
    ScalarFunction(
        "NULLIF", "value: same, nothing: same", "same", _null_if,
        "a value, or NULL if it is equal to the other one", "NULLIF('-', '-')", "null", strict=False,
    ),
    ScalarFunction(
        "IF", "condition: boolean, then: same, otherwise: same", "same", _if,
        "one value if the condition is true, another one if it is false or NULL", "IF(1 < 2, 'yes', 'no')", '"yes"',
        strict=False,
    ),
    _extreme(greatest=True),
    _extreme(greatest=False),
)  # fmt: skip
