"""Values inside JSON texts, and inside objects that events have as fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from query.functions.function import Arguments, ConstantError, Scalar, ScalarFunction
from query.physical.values import NULL, Value

STEPS_MAX = 32
_STEP = re.compile(r"\.(\w+)|\[(\d{1,9})\]|\['([^'\"\\\]]+)'\]|\.\"([^'\"\\\]]+)\"")


def _steps(path: str) -> str:
    """The path in the one spelling Polars is given; raises ConstantError."""
    place, spelled = 1, "$"
    if not path.startswith("$"):
        raise ConstantError("a JSON path begins with $, as in '$.items[0].name'")
    for count in range(STEPS_MAX + 1):
        if place == len(path):
            return spelled
        step = _STEP.match(path, place)
        if step is None or count == STEPS_MAX:
            break
        place = step.end()
        name = step[1] or step[3] or step[4]
        spelled += f"[{step[2]}]" if name is None else f"['{name}']"
    if place < len(path) and _STEP.match(path, place):
        raise ConstantError(f"a JSON path has at most {STEPS_MAX} steps")
    raise ConstantError(f"the JSON path makes no sense at its character {place + 1}: steps are .name, ['name'] and [0]")


def _check_path(constants: Sequence[Scalar]) -> None:
    if isinstance(constants[1], str):
        _steps(constants[1])


def _extracted(arguments: Arguments) -> Value:
    if arguments.values[0].kind != "string":
        return NULL
    return arguments.result(arguments.expression(0).str.json_path_match(_steps(arguments.text(1))), "string")


FUNCTIONS = (
    ScalarFunction(
        "JSON_VALUE", "json: any, path!: string", "string", _extracted,
        "the value at the path as a text, objects and lists as JSON; NULL if there is none, or no JSON",
        """JSON_VALUE('{"items": [{"id": 7}]}', '$.items[0].id')""", '"7"', check=_check_path,
    ),
    ScalarFunction(
        "JSON_EXTRACT", "json: any, path!: string", "string", _extracted,
        "the same as JSON_VALUE", """JSON_EXTRACT('{"a": {"b": "x"}}', '$.a')""", '"{\\"b\\":\\"x\\"}"',
        check=_check_path,
    ),
)  # fmt: skip
