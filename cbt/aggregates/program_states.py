"""Aggregates that a program computes elsewhere: frames carry its values and states as texts, and merge none of them.

Theory of operation. A group's rows are a *bag*: a row for each different text, with the number of its occurrences.
The first character of a text tells its kind: a value that an event brought, a state that the program made of several,
or a result. Bags are merged by adding up occurrences, so whoever has not got the program passes them on, in as many
rows as there are. Whoever has it may replace a bag's rows by one state at any time: it says the same. Results are the
last step, at the root.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from cbt.algebra.items import ItemPao
from cbt.algebra.pao import Lifted

VALUE, STATE, RESULT = "v", "s", "r"
"""First characters of texts: of the JSON of a value, of an encoded state, of the JSON of a result."""
RESULT_DTYPES: tuple[pl.DataType, ...] = (pl.Float64(), pl.Int64(), pl.String(), pl.Boolean())
"""Columns of results: numbers, integers, texts and conditions."""
TEXT, OCCURRENCES = "text", "n"
"""Last parts of the names of a bag's columns."""


class ProgramStates(ItemPao):
    """A bag of texts; `result` is the number of its results' type in `RESULT_DTYPES`.

    Lowers to the result in it, NULL where a program has made none yet. Raises ValueError for a type that is not there.

    >>> bag = ProgramStates("top", 1)
    >>> rows = pl.DataFrame({"k": [1], "top.text": ["r7"], "top.n": [1]})
    >>> bag.lower(rows, ["k"]).rows()
    [(1, 7)]
    """

    def __init__(self, name: str, result: int) -> None:
        if not 0 <= result < len(RESULT_DTYPES):
            raise ValueError(f"aggregate {name!r}: there is no type {result} of results")
        self.name, self._dtype = name, RESULT_DTYPES[result]
        self._text, self._n = f"{name}.{TEXT}", f"{name}.{OCCURRENCES}"
        self.items: dict[str, pl.DataType] = {self._text: pl.String()}
        self.state: dict[str, pl.DataType] = {self._n: pl.Int64()}

    def lift(self, argument: pl.Series) -> Lifted:
        values = argument if argument.dtype == pl.String else argument.cast(pl.String)
        texts = (pl.lit(VALUE) + values).alias(self._text)
        return Lifted([texts], [pl.len().cast(pl.Int64).alias(self._n)], [pl.col(self._n)])

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self._n).sum()]

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        results = rows.filter(pl.col(self._text).str.starts_with(RESULT))
        found = results.select(*group, _decoded(results[self._text], self._dtype).alias(self.name))
        firsts = found.unique(group, keep="first", maintain_order=True)
        return rows.select(group).unique().join(firsts, on=group, how="left", nulls_equal=True)


def _decoded(texts: pl.Series, dtype: Any) -> pl.Series:
    """The results in texts. O(bytes)."""
    json = texts.str.slice(1)
    return json.str.json_decode(dtype) if len(json) else pl.Series(texts.name, [], dtype=dtype)
