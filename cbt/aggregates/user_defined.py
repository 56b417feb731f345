"""User-defined aggregates: a developer's class, under a name, as a PAO.

A `ColumnFunction` speaks in Polars expressions and is as fast as they are. A `ValueFunction` speaks in plain Python
values, one call for each, and is a hundred times slower.

A faulty definition is refused when the function is registered, as far as that shows without data. A fault that shows
only with some data (an exception, a state that is too large) is a `UserDefinedError` that names the function.
Expressions of several PAOs are run together in `attempt`, which finds the PAO to blame. Nothing guards against code
that never returns, or that does harm on purpose: it runs with all the agent's rights.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from cbt.aggregates.user_code import UserDefinedError, UserDefinedPao, attempt, function_error
from cbt.aggregates.user_columns import ColumnFunction, ColumnPao
from cbt.aggregates.user_values import ValueFunction, ValuePao

__all__ = [
    "ColumnFunction",
    "UserDefinedError",
    "UserDefinedPao",
    "UserFunctions",
    "ValueFunction",
    "attempt",
]

_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class UserFunctions:
    """The user-defined functions of one job, by name. Names do not depend on case.

    >>> import polars as pl
    >>> class Longest(ColumnFunction):
    ...     argument_type, result_type, state = "string", "integer", {"n": pl.Int64()}
    ...     lift = lambda self, values: {"n": values.str.len_chars().max()}
    ...     combine = lambda self, states: {"n": states["n"].max()}
    ...     lower = lambda self, states: states["n"]
    >>> functions = UserFunctions(reserved=["sum"])
    >>> functions.register("longest", Longest())
    >>> functions.pao("LONGEST", "a").state
    {'a.n': Int64}
    >>> functions.register("broken", 5)
    Traceback (most recent call last):
    cbt.aggregates.user_code.UserDefinedError: the function 'broken' is int, not a ColumnFunction or a ValueFunction
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._reserved = {name.lower() for name in reserved}
        self._definitions: dict[str, ColumnFunction | ValueFunction] = {}

    def register(self, name: str, definition: ColumnFunction | ValueFunction) -> None:
        """Registers a function. Raises UserDefinedError for a definition that is seen to be wrong, and for a name that
        is taken or invalid.

        O(1): the function runs on no rows, or on its own zero alone.
        """
        lower = name.lower()
        if not _NAME.fullmatch(lower):
            raise function_error(name, "needs a name of letters, digits and underscores")
        if lower in self._reserved or lower in self._definitions:
            raise function_error(name, "exists already")
        _pao(name, lower, definition)
        self._definitions[lower] = definition

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._definitions

    def argument_type(self, name: str) -> str:
        """The type of a registered function's argument."""
        return self._definitions[name.lower()].argument_type

    def pao(self, name: str, aggregate: str) -> UserDefinedPao:
        """The PAO of a function, for the aggregate called `aggregate`. Raises KeyError if it is not registered."""
        lower = name.lower()
        return _pao(aggregate, lower, self._definitions[lower])


def _pao(aggregate: str, function: str, definition: object) -> UserDefinedPao:
    if isinstance(definition, ColumnFunction):
        return ColumnPao(aggregate, function, definition)
    if isinstance(definition, ValueFunction):
        return ValuePao(aggregate, function, definition)
    raise function_error(function, f"is {type(definition).__name__}, not a ColumnFunction or a ValueFunction")
