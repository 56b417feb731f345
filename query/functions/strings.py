"""Functions of texts. Characters are code points, counted from 1; no text they make is over 64 KiB."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from query.functions.function import (
    TEXT_BYTES_MAX,
    Arguments,
    Compute,
    ConstantError,
    Scalar,
    ScalarFunction,
    bounded_text,
    of_text,
)
from query.functions.texts import as_text
from query.physical.values import Value

PAD_MAX = 1_000


def _concatenated(arguments: Arguments) -> Value:
    texts = [as_text(arguments.bound(place), type_) for place, type_ in enumerate(arguments.types)]
    size = pl.sum_horizontal(text.str.len_bytes() for text in texts)
    return arguments.result(bounded_text(pl.concat_str(texts, ignore_nulls=True), size), "string")


def _substring(arguments: Arguments) -> Value:
    start = arguments.whole(1)
    text = arguments.expression(0)
    # Position 0 is before the first character; negative positions count from the end.
    offset = pl.when(start > 0).then(start - 1).otherwise(start.clip(-(2**31), 0))
    if len(arguments) < 3:
        return arguments.result(_known(text.str.slice(offset), start), "string")
    length = arguments.whole(2)
    taken = pl.when(start == 0).then(length - 1).otherwise(length).clip(0, None)
    return arguments.result(_known(text.str.slice(offset, taken.cast(pl.UInt64)), start, length), "string")


def _known(expression: pl.Expr, *others: pl.Expr) -> pl.Expr:
    """NULL where one of the other arguments is."""
    known = others[0].is_not_null()
    for other in others[1:]:
        known &= other.is_not_null()
    return pl.when(known).then(expression)


def _end(cut: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Compute:
    def compute(arguments: Arguments) -> Value:
        count = arguments.whole(1)
        return arguments.result(_known(cut(arguments.expression(0), count), count), "string")

    return compute


def _stripped(strip: Callable[[pl.Expr, str], pl.Expr]) -> Compute:
    def compute(arguments: Arguments) -> Value:
        characters = str(arguments.constant(1, " "))
        text = arguments.expression(0)
        return arguments.result(strip(text, characters) if characters else text, "string")

    return compute


def _replaced(arguments: Arguments) -> Value:
    text, search, replacement = arguments.bound(0).expression, arguments.text(1), arguments.text(2)
    if not search:
        return arguments.result(text, "string")
    replaced = text.str.replace_all(search, replacement, literal=True)
    more = len(replacement.encode()) - len(search.encode())
    if more > 0:
        count = text.str.count_matches(search, literal=True).cast(pl.Int64)
        replaced = bounded_text(replaced, text.str.len_bytes() + count * more)
    return arguments.result(replaced, "string")


def _position(arguments: Arguments) -> Value:
    text, part = arguments.bound(0).expression, arguments.bound(1).expression
    before = text.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int64)
    found = pl.when(text.str.contains(part, literal=True)).then(before + 1).otherwise(0)
    place = pl.when(part == "").then(1).otherwise(found)
    return arguments.result(_known(place.cast(pl.Int64), text, part), "integer")


def _with_part(test: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Compute:
    def compute(arguments: Arguments) -> Value:
        return arguments.result(test(arguments.expression(0), arguments.expression(1)), "boolean")

    return compute


def _split_part(arguments: Arguments) -> Value:
    text, separator, number = arguments.bound(0).expression, arguments.text(1), arguments.number(2, 1)
    place = number - 1 if number > 0 else number
    if not separator:
        part = text if place in (0, -1) else pl.lit("")
    else:
        part = text.str.split(separator).list.get(place, null_on_oob=True).fill_null("")
    return arguments.result(_known(part, text), "string")


def _padded(*, left: bool) -> Compute:
    def compute(arguments: Arguments) -> Value:
        text, count, fill = arguments.bound(0).expression, arguments.number(1, 0), str(arguments.constant(2, " "))
        padding = pl.lit((fill * count)[:count]) if fill else pl.lit("")
        missing = (count - text.str.len_chars().cast(pl.Int64)).clip(0, None)
        added = padding.str.head(missing)
        padded = pl.concat_str([added, text.str.head(count)] if left else [text.str.head(count), added])
        return arguments.result(padded, "string")

    return compute


def _repeated(arguments: Arguments) -> Value:
    text, count = arguments.bound(0).expression, max(0, arguments.number(1, 0))
    fitting = pl.when(text.str.len_bytes().cast(pl.Int64) * count <= TEXT_BYTES_MAX).then(text)
    repeated = fitting.repeat_by(count).list.join("")
    return arguments.result(pl.when(fitting.is_not_null()).then(repeated), "string")


def _check_count(constants: Sequence[Scalar]) -> None:
    count = constants[1]
    if isinstance(count, int) and not 0 <= count <= PAD_MAX:
        raise ConstantError(f"a count from 0 to {PAD_MAX:,} is needed, not {count}")


def _check_part(constants: Sequence[Scalar]) -> None:
    number = constants[2]
    if isinstance(number, int) and (number == 0 or abs(number) > TEXT_BYTES_MAX):
        raise ConstantError("parts are counted from 1, or from -1 at the end")


FUNCTIONS = (
    ScalarFunction(
        "LOWER", "text: string", "string", of_text(lambda text: text.str.to_lowercase()),
        "in lower case", "LOWER('Ä/B')", '"ä/b"',
    ),
    ScalarFunction(
        "UPPER", "text: string", "string", of_text(lambda text: text.str.to_uppercase()),
        "in upper case", "UPPER('get')", '"GET"',
    ),
    ScalarFunction(
        "LENGTH", "text: string", "integer", of_text(lambda text: text.str.len_chars().cast(pl.Int64), "integer"),
        "the number of characters", "LENGTH('été')", "3",
    ),
    ScalarFunction(
        "TRIM", "text: string, characters?!: string", "string",
        _stripped(lambda text, characters: text.str.strip_chars(characters)),
        "without spaces, or any of the characters, at both ends", "TRIM('  a ')", '"a"',
    ),
    ScalarFunction(
        "LTRIM", "text: string, characters?!: string", "string",
        _stripped(lambda text, characters: text.str.strip_chars_start(characters)),
        "without them at its beginning", "LTRIM('//a/', '/')", '"a/"',
    ),
    ScalarFunction(
        "RTRIM", "text: string, characters?!: string", "string",
        _stripped(lambda text, characters: text.str.strip_chars_end(characters)),
        "without them at its end", "RTRIM('/a//', '/')", '"/a"',
    ),
    ScalarFunction(
        "SUBSTR", "text: string, start: number, length?: number", "string", _substring,
        "the characters from a place on; a negative one counts from the end", "SUBSTR('abcdef', 2, 3)", '"bcd"',
    ),
    ScalarFunction(
        "SUBSTRING", "text: string, start: number, length?: number", "string", _substring,
        "the same as SUBSTR", "SUBSTRING('abcdef', -2)", '"ef"',
    ),
    ScalarFunction(
        "LEFT", "text: string, count: number", "string", _end(lambda text, count: text.str.head(count)),
        "the first characters; of a negative count, all but the last", "LEFT('abcdef', 2)", '"ab"',
    ),
    ScalarFunction(
        "RIGHT", "text: string, count: number", "string", _end(lambda text, count: text.str.tail(count)),
        "the last characters; of a negative count, all but the first", "RIGHT('abcdef', 2)", '"ef"',
    ),
    ScalarFunction(
        "REPLACE", "text: string, search!: string, replacement!: string", "string", _replaced,
        "with every occurrence replaced", "REPLACE('a-b-c', '-', '/')", '"a/b/c"',
    ),
    ScalarFunction(
        "CONCAT", "values...: any", "string", _concatenated,
        "values of any type one after the other, as texts; NULL is passed over", "CONCAT('a', NULL, 1)", '"a1"',
        strict=False,
    ),
    ScalarFunction(
        "STARTS_WITH", "text: string, part: string", "boolean",
        _with_part(lambda text, part: text.str.starts_with(part)),
        "whether the text begins so", "STARTS_WITH('/shop/1', '/shop')", "true",
    ),
    ScalarFunction(
        "ENDS_WITH", "text: string, part: string", "boolean", _with_part(lambda text, part: text.str.ends_with(part)),
        "whether it ends so", "ENDS_WITH('a.png', '.png')", "true",
    ),
    ScalarFunction(
        "CONTAINS", "text: string, part: string", "boolean",
        _with_part(lambda text, part: text.str.contains(part, literal=True)),
        "whether the part is somewhere in it", "CONTAINS('a.png', '.p')", "true",
    ),
    ScalarFunction(
        "STRPOS", "text: string, part: string", "integer", _position,
        "where the part begins for the first time, 0 if nowhere", "STRPOS('été', 't')", "2",
    ),
    ScalarFunction(
        "SPLIT_PART", "text: string, separator!: string, number!: integer", "string", _split_part,
        "one of the parts between separators, '' if there are fewer; -1 is the last",
        "SPLIT_PART('a/b/c', '/', 2)", '"b"', check=_check_part,
    ),
    ScalarFunction(
        "REVERSE", "text: string", "string", of_text(lambda text: text.str.reverse()),
        "back to front", "REVERSE('abc')", '"cba"',
    ),
    ScalarFunction(
        "LPAD", "text: string, count!: integer, fill?!: string", "string", _padded(left=True),
        "filled from the left to a number of characters, or cut: at most 1,000", "LPAD('7', 3, '0')", '"007"',
        check=_check_count,
    ),
    ScalarFunction(
        "RPAD", "text: string, count!: integer, fill?!: string", "string", _padded(left=False),
        "filled from the right, or cut", "RPAD('ab', 4, '.')", '"ab.."', check=_check_count,
    ),
    ScalarFunction(
        "REPEAT", "text: string, count!: integer", "string", _repeated,
        "repeated a number of times, at most 1,000", "REPEAT('ab', 3)", '"ababab"', check=_check_count,
    ),
)  # fmt: skip
