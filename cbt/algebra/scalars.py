"""Canonical JSON text of scalars: one text for one value, whatever physical column it arrived in.

* A number that is an integer in -2**63 .. 2**63-1 is written in plain digits, as `Int64` or as `Float64`: 1
  and 1.0 are `1`, 1e3 is `1000`, -0.0 is `0`. Any other double is written as Python's `repr` has it, the
  shortest text that reads back as the same double: `0.1`, `1e-07`, `1e+19`. Numbers that are not finite never
  come from JSON; they are `NaN`, `Infinity`, `-Infinity`.
* A string is quoted; `"`, `\\` and the characters below U+0020 are escaped, in the short form where JSON has
  one.
* Booleans are `true` and `false`; NULL stays NULL.
"""

import polars as pl

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT_ESCAPES
_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def canonical_json(series: pl.Series) -> pl.Series:
    r"""The canonical JSON text of each value of a String, Int64, Float64, Boolean or Null column.
    O(characters).

    Raises ValueError for another type.

    >>> canonical_json(pl.Series([1.0, 2.5, None])).to_list()
    ['1', '2.5', None]
    >>> canonical_json(pl.Series(['a "b"\n'])).to_list()
    ['"a \\"b\\"\\n"']
    """
    if series.dtype == pl.String:
        return _quoted(series)
    if series.dtype == pl.Float64:
        return _numbers(series)
    if series.dtype in (pl.Int64, pl.Boolean, pl.Null):
        return series.cast(pl.String)
    raise ValueError(f"column {series.name!r} of type {series.dtype} has no JSON text")


def _quoted(series: pl.Series) -> pl.Series:
    """One look at the texts tells whether any needs escapes, and quotes them as they are."""
    text = pl.first()
    quoted = pl.concat_str(pl.lit('"'), text, pl.lit('"')).alias("quoted")
    found = series.to_frame().select(quoted, text.str.contains(_NEEDS_ESCAPE).any().alias("needs"))
    if len(found) and found["needs"][0]:
        found = series.str.replace_many(_ESCAPES).to_frame().select(quoted)
    return found["quoted"].rename(series.name)


def _numbers(series: pl.Series) -> pl.Series:
    integral = (series == series.floor()) & (series >= -(2.0**63)) & (series < 2.0**63)
    integers = series.set(~integral, None).cast(pl.Int64).cast(pl.String)
    others = series.filter(~integral)  # a comparison with NULL is NULL, which no filter keeps
    if not len(others):
        return integers
    texts = [_NOT_FINITE.get(text, text) for text in map(repr, others)]
    return integers.scatter((~integral).arg_true(), texts)
