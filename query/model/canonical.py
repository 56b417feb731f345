"""Turns canonical JSON text, as keys and extremes of no fixed type have it, back into values and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

Scalar: TypeAlias = str | int | float | bool | None
_SCALARS = frozenset((str, int, float, bool, type(None)))
_RANKS = {"boolean": 0, "integer": 1, "double": 1, "string": 2}


def decode_texts(texts: Sequence[str | None]) -> list[Scalar]:
    """The value of each text, None for NULL and for any text that is no scalar. Linear."""
    try:
        values = msgspec.json.decode("[" + ",".join(text or "null" for text in texts) + "]")
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return list(map(_decode, texts))
    if len(values) == len(texts) and _SCALARS.issuperset(map(type, values)):
        return list(values)
    return list(map(_decode, texts))


def _decode(text: str | None) -> Scalar:
    """The value of one text, which is not trusted: a peer may have sent it."""
    try:
        value = msgspec.json.decode(text or "null")
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return value if type(value) in _SCALARS else None


def kind_of(text: pl.Expr) -> pl.Expr:
    """The physical kind of each text: boolean, integer, double, string, or null (NaN and infinities too)."""
    return (
        pl.when(text.str.starts_with('"'))
        .then(pl.lit("string"))
        .when(text.is_in(["true", "false"]))
        .then(pl.lit("boolean"))
        .when(text.cast(pl.Int64, strict=False).is_not_null())
        .then(pl.lit("integer"))
        .when(text.cast(pl.Float64, strict=False).is_finite())
        .then(pl.lit("double"))
        .otherwise(pl.lit("null"))
    )


def physical(texts: pl.Series, kind: str) -> pl.Series:
    """The values of texts that are all of one kind as a column of that kind."""
    if kind == "string":
        return strings(texts)
    if kind == "boolean":
        return texts == "true"
    if kind == "null":
        return pl.Series(texts.name, [None] * len(texts), dtype=pl.Null)
    return texts.cast(pl.Int64 if kind == "integer" else pl.Float64)


def strings(texts: pl.Series) -> pl.Series:
    """The strings in quoted texts, NULL for any other text."""
    inner = pl.col(texts.name).str.strip_prefix('"').str.strip_suffix('"')
    quoted = pl.col(texts.name).str.starts_with('"')
    plain = texts.to_frame().select(pl.when(quoted).then(inner))[texts.name]
    escaped = (plain.is_not_null() & texts.str.contains("\\", literal=True)).arg_true()
    if len(escaped):
        decoded = [value if isinstance(value, str) else None for value in decode_texts(texts.gather(escaped).to_list())]
        plain = plain.scatter(escaped, pl.Series(decoded, dtype=pl.String))
    return plain


def text_sort_columns(name: str, type_: str) -> list[pl.Expr]:
    """The sort columns of `ordering.sort_columns` for a column of texts of type any or number."""
    text = pl.col(name)
    approximate = text.cast(pl.Float64, strict=False)
    number = pl.when(approximate.is_finite()).then(approximate)
    rounded_away = text.cast(pl.Int128, strict=False) - number.cast(pl.Int128, strict=False)
    exact = pl.when(number.is_not_null()).then(rounded_away.fill_null(0).cast(pl.Int64, strict=False))
    if type_ == "number":
        return [number, exact]
    rank = kind_of(text).replace_strict(_RANKS, default=None, return_dtype=pl.Int64)
    boolean = pl.when(text.is_in(["true", "false"])).then((text == "true").cast(pl.Float64))
    return [rank, pl.coalesce(number, boolean), exact, text.map_batches(strings, return_dtype=pl.String)]


def is_quoted(texts: pl.Series) -> bool:
    """Whether all texts are of strings, or NULL."""
    return texts.str.starts_with('"').all()


def quoted_sort_columns(name: str) -> list[pl.Expr]:
    """`text_sort_columns` of a column of type any that holds strings alone."""
    text = pl.col(name)
    rank = pl.when(text.is_not_null()).then(pl.lit(_RANKS["string"], dtype=pl.Int64))
    nothing = [pl.lit(None, dtype=pl.Float64), pl.lit(None, dtype=pl.Int64)]
    return [rank, *nothing, text.map_batches(strings, return_dtype=pl.String)]
