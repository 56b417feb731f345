"""Aggregates that a program computes elsewhere: frames carry its values and states as texts, and merge none of them.

Theory of operation. A group's rows are a *bag*: a row for each different text, with the number of its occurrences.
The first character of a text tells its kind: a value that an event brought, a state that the program made of several,
or a result. Where no states can be made of several values, a value has the time of its event before it. Bags are merged
by adding up occurrences, so whoever has not got the program passes them on, in as many rows as there are. Whoever has
it may replace a bag's rows by one state at any time: it says the same. Results are the last step, at the root.
"""

from __future__ import annotations

import polars as pl

from cbt.algebra.items import ItemPao
from cbt.algebra.pao import Lifted

VALUE, STATE, RESULT = "v", "s", "r"
"""First characters of texts: of the JSON of a value, of an encoded state, of the JSON of a result."""
RESULT_DTYPES: tuple[pl.DataType, ...] = (pl.Float64(), pl.Int64(), pl.String(), pl.Boolean())
"""Columns of results: numbers, integers, texts and conditions."""
OCCURRENCES_MAX = 1 << 47
"""Upper bound on the occurrences of a text: a peer may claim any number."""
TEXT, OCCURRENCES = "text", "n"
"""Last parts of the names of a bag's columns."""


class ProgramStates(ItemPao):
    """A bag of texts; `result` is the number of its results' type in `RESULT_DTYPES`. `timed`: values have the time of
    their event before them (epoch ms), from the block's column `time`.

    Lowers to the result in it, NULL where a program has made none yet. Raises ValueError for a type that is not there.

    >>> bag = ProgramStates("top", 1)
    >>> rows = pl.DataFrame({"k": [1], "top.text": ["r7"], "top.n": [1]})
    >>> bag.lower(rows, ["k"]).rows()
    [(1, 7)]
    """

    def __init__(self, name: str, result: int, *, timed: bool = False) -> None:
        if not 0 <= result < len(RESULT_DTYPES):
            raise ValueError(f"aggregate {name!r}: there is no type {result} of results")
        self.name, self._dtype = name, RESULT_DTYPES[result]
        self._text, self._n = f"{name}.{TEXT}", f"{name}.{OCCURRENCES}"
        self.inputs = ("time",) if timed else ()
        self.items: dict[str, pl.DataType] = {self._text: pl.String()}
        self.state: dict[str, pl.DataType] = {self._n: pl.Int64()}

    def lift(self, argument: pl.Series) -> Lifted:
        values = argument if argument.dtype == pl.String else argument.cast(pl.String)
        start = pl.lit(VALUE) + pl.col("time").cast(pl.String) if self.inputs else pl.lit(VALUE)
        texts = (start + values).alias(self._text)
        return Lifted([texts], [pl.len().cast(pl.Int64).alias(self._n)], [pl.col(self._n)])

    def known(self, rows: pl.DataFrame) -> pl.DataFrame:
        """A bag as a program may fold it: without what nobody but a false peer has sent, a result among them."""
        texts, n = pl.col(self._text), pl.col(self._n).fill_null(0).clip(0, OCCURRENCES_MAX)
        is_known = texts.str.starts_with(VALUE) | texts.str.starts_with(STATE)
        return rows.with_columns(pl.when(is_known).then(texts).alias(self._text), n.alias(self._n))

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self._n).sum()]

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        results = rows.filter(pl.col(self._text).str.starts_with(RESULT))
        found = results.select(*group, _decoded(results[self._text], self._dtype).alias(self.name))
        firsts = found.unique(group, keep="first", maintain_order=True)
        return rows.select(group).unique().join(firsts, on=group, how="left", nulls_equal=True)


def _decoded(texts: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The results in texts; NULL where a peer claims one that is none. O(bytes)."""
    encoded = texts.str.slice(1)
    try:
        return encoded.str.json_decode(dtype) if len(encoded) else pl.Series(texts.name, [], dtype=dtype)
    except pl.exceptions.PolarsError:
        return pl.Series(texts.name, [_result(one, dtype) for one in encoded], dtype=dtype)


def _result(encoded: str, dtype: pl.DataType) -> object:
    try:
        return pl.Series([encoded]).str.json_decode(dtype).item()
    except pl.exceptions.PolarsError:
        return None
