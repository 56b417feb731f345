"""Values of any type to and from texts: CAST and CONCAT. Conversions do not fail: a text that is no value of the type
is NULL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from query.model.timestamps import SHOWN_MAX, SHOWN_MIN
from query.physical.values import DTYPES, NULL, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from query.physical.arithmetic import Bind

_TRUE = ["true", "t", "yes", "y", "1"]
_FALSE = ["false", "f", "no", "n", "0"]
_WHOLE_MAX = 2.0**63
_TIME = (
    r"^\s*(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|z|[+-]\d{2}(?::?\d{2})?)?)?\s*$"
)


def cast(operator: str, value: Value, type_: str, bind: Bind) -> Value:
    """A value of one of `types.CASTS`; `type_` is what the value is in the plan."""
    if value.kind == "null":
        return NULL
    value = bind(value)
    if operator == "to_string":
        return Value(as_text(value, type_), "string", level=value.level)
    if operator == "to_boolean":
        return Value(_boolean(value), "boolean", level=value.level)
    if operator == "to_integer":
        return _integer(value, bind)
    if operator == "to_number":
        return _number(value, bind)
    if type_ == "timestamp":
        return value
    return Value(_time(value.expression), "integer", level=value.level) if value.kind == "string" else NULL


def as_text(value: Value, type_: str) -> pl.Expr:
    """The text of a bound value, as results show it."""
    expression = value.expression
    if value.kind == "string":
        return expression
    if value.kind == "null":
        return pl.lit(None, dtype=pl.String)
    if value.kind == "boolean":
        return pl.when(expression).then(pl.lit("true")).when(~expression).then(pl.lit("false"))
    if type_ == "timestamp":
        return in_calendar(expression).dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ")
    if value.kind == "double":
        rounded = expression.round_sig_figs(15)
        integral = (rounded == rounded.floor()) & (rounded.abs() < _WHOLE_MAX)
        whole = rounded.cast(pl.Int64, strict=False).cast(pl.String)
        return pl.when(integral).then(whole).otherwise(rounded.cast(pl.String))
    return expression.cast(pl.String)


def in_calendar(time_ms: pl.Expr) -> pl.Expr:
    """Epoch milliseconds as a date and time; NULL outside the years 1 to 9999, where Polars would panic."""
    known = pl.when(time_ms.is_between(SHOWN_MIN, SHOWN_MAX)).then(time_ms)
    return known.cast(pl.Datetime("ms"))


def _boolean(value: Value) -> pl.Expr:
    expression = value.expression
    if value.kind == "boolean":
        return expression
    if value.kind == "string":
        lower = expression.str.strip_chars().str.to_lowercase()
        return pl.when(lower.is_in(_TRUE)).then(pl.lit(True)).when(lower.is_in(_FALSE)).then(pl.lit(False))
    return expression != 0


def _integer(value: Value, bind: Bind) -> Value:
    whole = Value(value.expression.cast(pl.Int64, strict=False), "integer", level=value.level)
    return _completed(whole, value, _integers, bind) if value.kind == "string" else whole


def _number(value: Value, bind: Bind) -> Value:
    number = Value(value.expression.cast(pl.Float64, strict=False), "double", level=value.level)
    return _completed(number, value, _numbers, bind) if value.kind == "string" else number


def _completed(cast: Value, text: Value, complete: Callable[[Sequence[pl.Series]], pl.Series], bind: Bind) -> Value:
    """Casts with the engine in several threads, and in one thread the texts that the engine does not know."""
    known = bind(cast)
    dtype = DTYPES[cast.kind]
    return replace(known, expression=pl.map_batches([known.expression, text.expression], complete, dtype), simple=False)


def _integers(known: Sequence[pl.Series]) -> pl.Series:
    """Corrects a cast of texts to integers: the engine does not know blanks and fractions."""
    whole, texts = known
    if whole.null_count() == texts.null_count():
        return whole
    others = (whole.is_null() & texts.is_not_null()).arg_true()
    stripped = texts[others].str.strip_chars()
    exact, cut = stripped.cast(pl.Int64, strict=False), stripped.cast(pl.Float64, strict=False)
    return whole.scatter(others, exact.zip_with(exact.is_not_null(), cut.cast(pl.Int64, strict=False)))


def _numbers(known: Sequence[pl.Series]) -> pl.Series:
    """Corrects a cast of texts to numbers: the engine does not know blanks."""
    numbers, texts = known
    if numbers.null_count() > texts.null_count():
        others = (numbers.is_null() & texts.is_not_null()).arg_true()
        numbers = numbers.scatter(others, texts[others].str.strip_chars().cast(pl.Float64, strict=False))
    return numbers if numbers.is_finite().all() else numbers.set(~numbers.is_finite(), None)


def _time(text: pl.Expr) -> pl.Expr:
    """ISO 8601 with a space or T, in UTC unless it says otherwise; epoch milliseconds, more digits are cut off."""

    def part(group: int) -> pl.Expr:
        return text.str.extract(_TIME, group)

    def number(digits: pl.Expr) -> pl.Expr:
        return digits.fill_null("0").cast(pl.Int64, strict=False)

    day = part(1).str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("ms")).to_physical()
    hours, minutes, seconds = (number(part(group)) for group in (2, 3, 4))
    milliseconds = number(part(5).fill_null("0").str.pad_end(3, "0").str.head(3))
    zone = part(6)
    offset = number(zone.str.slice(1, 2)) * 60 + number(zone.str.extract(r"(\d{2})$"))
    # In a zone without minutes the hours are found twice.
    offset = pl.when(zone.str.len_bytes() == 3).then(number(zone.str.slice(1, 2)) * 60).otherwise(offset)
    signed = pl.when(zone.str.starts_with("-")).then(-offset).when(zone.str.starts_with("+")).then(offset).otherwise(0)
    fits = (hours < 24) & (minutes < 60) & (seconds < 60) & (signed.abs() < 24 * 60)
    time = day + (hours * 60 + minutes - signed) * 60_000 + seconds * 1_000 + milliseconds
    return pl.when(fits & time.is_between(SHOWN_MIN, SHOWN_MAX)).then(time)
