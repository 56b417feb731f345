"""Regular expressions: those of Rust's regex crate, which never back-track. Checked when a query is compiled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from query.functions.function import Arguments, ConstantError, Scalar, ScalarFunction, bounded_text
from query.physical.values import Value

PATTERN_CHARACTERS_MAX = 1_000
SIZE_MAX = 2_000
"""Upper bound on the size of a pattern with its counted repetitions written out. Larger ones take long to compile."""
REGEXES_MAX = 100
"""Upper bound on regular expressions in one query: patterns of the largest size take a few seconds to compile."""
_CLASS_SIZE = 15
_UNICODE_CLASS_SIZE = 40
"""Size of a class with hundreds of ranges: one takes a quarter of a millisecond to compile, fifty times the others."""
_UNICODE_CLASS = re.compile(r"\\[wWpP]")
REPLACEMENT_CHARACTERS_MAX = 1_000
_TOKENS = re.compile(
    r"\\[pP](?:\{[^}]*\}|.)|\\x\{[^}]*\}|\\.|\[(?:\\.|\[:|:\]|[^\]\\])*\]|\{(\d*),?(\d*)\}|.", re.DOTALL
)
_REFERENCE = re.compile(r"\$(\$|\d+|\{\d+\})?")
_REASON = re.compile(r"^error: (.+)", re.MULTILINE)


@lru_cache(maxsize=256)
def check_regex(pattern: str) -> None:
    """Raises ConstantError unless Polars can run the pattern within bounds. Linear, except for compiling it once."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ConstantError(f"a regular expression may have at most {PATTERN_CHARACTERS_MAX:,} characters")
    if compiled_size(pattern) > SIZE_MAX:
        raise ConstantError("this regular expression is too large with its repetitions written out")
    try:
        pl.select(pl.lit("").str.contains(pattern))
    except pl.exceptions.PolarsError as error:
        reason = _REASON.search(str(error))
        told = reason[1] if reason else "it is too large"
        raise ConstantError(f"this regular expression cannot be used: {told}") from None


def compiled_size(pattern: str) -> int:
    """The approximate size of a pattern once counted repetitions are written out; a class of characters counts more."""
    # For each open group, and the whole: its size so far, and the size of its last part.
    stack = [[0, 0]]
    for token in _TOKENS.finditer(pattern):
        text = token[0]
        if text == "(":
            stack.append([0, 0])
        elif text == ")" and len(stack) > 1:
            inner, _ = stack.pop()
            stack[-1] = [stack[-1][0] + inner, inner]
        elif text[0] == "{" and len(text) > 1:
            digits = token[2] or token[1]
            times = int(digits[:6]) if digits else 1
            total, last = stack[-1]
            stack[-1] = [total + last * max(0, times - 1), last * times]
        elif text not in ("+", "*", "?"):
            size = _UNICODE_CLASS_SIZE if _UNICODE_CLASS.search(text) else _CLASS_SIZE
            part = size if len(text) > 1 or text == "." else 1
            stack[-1] = [stack[-1][0] + part, part]
    return sum(total for total, _ in stack)


def _groups(pattern: str) -> int:
    """The number of capture groups of a pattern that was checked."""
    return len(pl.select(pl.lit("").str.extract_groups(pattern)).to_series().struct.fields)


def _check_pattern(constants: Sequence[Scalar]) -> None:
    if isinstance(constants[1], str):
        check_regex(constants[1])


def _check_group(constants: Sequence[Scalar]) -> None:
    _check_pattern(constants)
    pattern, group = constants[1], constants[2] if len(constants) > 2 else 0
    if isinstance(pattern, str) and isinstance(group, int) and not 0 <= group <= _groups(pattern):
        raise ConstantError(f"the regular expression has no group {group}: it has {_groups(pattern)}")


def _check_replacement(constants: Sequence[Scalar]) -> None:
    _check_pattern(constants)
    pattern, replacement = constants[1:]
    if not isinstance(pattern, str) or not isinstance(replacement, str):
        return
    if len(replacement) > REPLACEMENT_CHARACTERS_MAX:
        raise ConstantError(f"a replacement may have at most {REPLACEMENT_CHARACTERS_MAX:,} characters")
    for reference in _REFERENCE.finditer(replacement):
        if reference[0] == "$":
            raise ConstantError("a $ in a replacement is written $$, and a group as $1")
        if reference[1] != "$" and int(reference[1].strip("{}")[:6]) > _groups(pattern):
            raise ConstantError(f"the regular expression has no group {reference[1].strip('{}')}")


def _is_like(arguments: Arguments) -> Value:
    return arguments.result(arguments.expression(0).str.contains(arguments.text(1)), "boolean")


def _extracted(arguments: Arguments) -> Value:
    extracted = arguments.expression(0).str.extract(arguments.text(1), arguments.number(2, 0))
    return arguments.result(extracted, "string")


def _replaced(arguments: Arguments) -> Value:
    text, pattern, replacement = arguments.bound(0).expression, arguments.text(1), arguments.text(2)
    references = sum(match[0] != "$$" for match in _REFERENCE.finditer(replacement))
    # $1 is group 1 whatever follows it.
    spelled = _REFERENCE.sub(lambda match: match[0] if match[1] == "$" else f"${{{match[1].strip('{}')}}}", replacement)
    literal = len(_REFERENCE.sub("", replacement).encode()) + replacement.count("$$")
    count = text.str.count_matches(pattern).cast(pl.Int64)
    size = text.str.len_bytes().cast(pl.Int64) * (1 + references) + count * literal
    return arguments.result(bounded_text(text.str.replace_all(pattern, spelled), size), "string")


FUNCTIONS = (
    ScalarFunction(
        "REGEXP_LIKE", "text: string, pattern!: string", "boolean", _is_like,
        "whether the pattern matches somewhere: the same as RLIKE", r"REGEXP_LIKE('/shop/17', '\d+$')", "true",
        check=_check_pattern,
    ),
    ScalarFunction(
        "REGEXP_EXTRACT", "text: string, pattern!: string, group?!: integer", "string", _extracted,
        "what the pattern, or one of its groups, matches first; NULL if nothing does",
        r"REGEXP_EXTRACT('/shop/17', '/(\w+)/(\d+)', 2)", '"17"', check=_check_group,
    ),
    ScalarFunction(
        "REGEXP_REPLACE", "text: string, pattern!: string, replacement!: string", "string", _replaced,
        "with every match replaced; $1 in the replacement is what group 1 matched",
        r"REGEXP_REPLACE('/shop/17', '\d+', 'N')", '"/shop/N"', check=_check_replacement,
    ),
)  # fmt: skip
NAMES = frozenset(function.name for function in FUNCTIONS)
