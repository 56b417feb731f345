"""Random expressions, as texts, and random values for the columns they are made of."""

from __future__ import annotations

from hypothesis import strategies as st

COLUMNS = {"id": "integer", "s": "string", "t": "string", "n": "integer", "m": "integer", "x": "number", "b": "boolean"}
SHORT = st.text("aBé/% _1", max_size=6)
PARTS = st.sampled_from(["'a'", "'B'", "'é'", "'/'", "' '", "'1'", "'aB'", "''"])
COUNTS = st.integers(0, 7).map(str)
PLACES = st.integers(1, 7).map(str)
PATTERNS = st.sampled_from(["'%a%'", "'_b%'", "'%É'", "'%'", "''", "'/%_'"])


def templates(*texts):
    """Texts with {} where operands go, as a strategy of functions of their operands."""
    return st.sampled_from(texts)


@st.composite
def filled(draw, template, **kinds):
    """A template with each {kind} filled in."""
    text = draw(template)
    for kind, strategy in kinds.items():
        while f"{{{kind}}}" in text:
            text = text.replace(f"{{{kind}}}", draw(strategy), 1)
    return text


def strings(inner):
    text, number, condition = inner
    return filled(
        templates(
            "LOWER({s})", "UPPER({s})", "TRIM({s})", "LTRIM({s}, {part})", "SUBSTR({s}, {place}, {count})",
            "SUBSTR({s}, {place})", "LEFT({s}, {count})", "RIGHT({s}, {count})", "REPLACE({s}, {part}, {part})",
            "CONCAT({s}, {s}, {n})", "({s} || {s})", "LPAD({s}, {count}, '-+')", "RPAD({s}, {count}, 'é')",
            "COALESCE({s}, {s}, 'none')", "NULLIF({s}, {s})", "CASE WHEN {b} THEN {s} WHEN {b} THEN {s} END",
            "IFNULL({s}, {s})", "CASE {n} WHEN {n} THEN {s} ELSE {s} END", "GREATEST({s}, {s})",
            "SPLIT_PART({s}, '/', {place})", "CAST({n} AS VARCHAR)", "REPEAT({s}, {count})",
        ),
        s=text, n=number, b=condition, part=PARTS, count=COUNTS, place=PLACES,
    )  # fmt: skip


def numbers(inner):
    text, number, condition = inner
    return filled(
        templates(
            "LENGTH({s})", "STRPOS({s}, {part})", "ABS({n})", "SIGN({n})", "({n} + {n})", "({n} - {n})", "MOD({n}, 7)",
            "GREATEST({n}, {n})", "LEAST({n}, {n}, 3)", "CASE WHEN {b} THEN {n} ELSE {n} END", "COALESCE({n}, {n})",
            "NULLIF({n}, {n})", "CAST({b} AS BIGINT)",
        ),
        s=text, n=number, b=condition, part=PARTS,
    )  # fmt: skip


def conditions(inner):
    text, number, condition = inner
    return filled(
        templates(
            "STARTS_WITH({s}, {s})", "ENDS_WITH({s}, {part})", "CONTAINS({s}, {part})", "({s} < {s})", "({n} >= {n})",
            "({n} BETWEEN {n} AND {n})", "({s} NOT BETWEEN {s} AND {s})", "({s} ILIKE {pattern})",
            "({s} NOT LIKE {pattern})", "({n} IN ({n}, {n}))", "({s} IS NULL)", "(NOT {b})", "({b} AND {b})",
            "({b} OR {b})", "COALESCE({b}, {b})",
        ),
        s=text, n=number, b=condition, part=PARTS, pattern=PATTERNS,
    )  # fmt: skip


def deeper(inner):
    return strings(inner), numbers(inner), conditions(inner)


LEAVES = (
    st.sampled_from(["(s || '')", "(t || '')", "'aB/1'"]),
    st.sampled_from(["(n + 0)", "(m + 0)", "2", "(1 + 2)"]),
    st.sampled_from(["(n < 2)", "(b = TRUE)", "(s = t)", "(2 < 1)", "(1 = NULL)"]),
)
ONCE = tuple(st.one_of(*pair) for pair in zip(LEAVES, deeper(LEAVES), strict=True))
STRINGS, NUMBERS, CONDITIONS = deeper(ONCE)
VALUES = {"string": SHORT, "integer": st.integers(-9, 9), "number": st.integers(-40, 40).map(lambda n: n / 8),
          "boolean": st.booleans()}  # fmt: skip
