"""Random queries with groups, for ELF QL and as DuckDB writes the same."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from random_expressions import CONDITIONS, NUMBERS, STRINGS, filled, templates

KEYS = st.one_of(STRINGS, NUMBERS, CONDITIONS, st.sampled_from(["s", "n", "b", "n // 2", "t"]))
CALLS = filled(
    templates(
        "COUNT(*)", "COUNT({s})", "COUNT(DISTINCT {s})", "SUM({n})", "AVG({n})", "MIN({n})", "MAX({s})", "SUM(x)",
        "BOOL_OR({b})", "BOOL_AND({b})", "SUM(n)", "AVG(n)", "COUNT(n)", "MAX(x)", "VAR_POP(n)",
    ),
    s=STRINGS, n=NUMBERS, b=CONDITIONS,
)  # fmt: skip
FILTERS = st.one_of(st.just(""), CONDITIONS.map(" FILTER (WHERE {})".format))
PLACES = st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS FIRST"])


@dataclass(frozen=True, slots=True)
class Pair:
    """Asks ELF and DuckDB the same question."""

    elf: str
    duckdb: str


@st.composite
def pairs(draw):
    """GROUP BY any expressions; with windows, WHERE, FILTER, HAVING, ORDER BY and LIMIT, or some of them."""
    keys = draw(st.lists(KEYS, max_size=2, unique=True))
    calls = [call + draw(FILTERS) for call in draw(st.lists(CALLS, min_size=1, max_size=3))]
    windowed = bool(keys) and draw(st.booleans())
    where = draw(st.one_of(st.just(""), CONDITIONS.map(" WHERE {}".format)))
    conditions = ["COUNT(*) > 1", "c0 IS NOT NULL", "SUM(n) >= 0 OR c0 IS NULL", "1 + 1 = 2"]
    if keys:
        conditions += ["k0 IS NOT NULL", "k0 = k0 AND COUNT(n) > 0", "NOT (k0 IS NULL AND COUNT(*) = 1)"]
    having = draw(st.one_of(st.just(""), st.sampled_from(conditions).map(" HAVING {}".format)))
    shown = [f"{key} AS k{n}" for n, key in enumerate(keys)] + [f"{call} AS c{n}" for n, call in enumerate(calls)]
    names = [f"k{n}" for n in range(len(keys))]
    tail = ""
    if keys and not windowed and draw(st.booleans()):
        # Ties are in the order of their keys; in DuckDB that has to be said.
        tail = f" ORDER BY {', '.join(name + draw(PLACES) for name in ['c0', *names])} LIMIT {draw(st.integers(1, 4))}"
    if windowed:
        start = "time_bucket(INTERVAL 2 SECOND, ts) AS w, "
        theirs = f"SELECT {start}{', '.join(shown)} FROM t{where} GROUP BY {', '.join(['w', *names])}{having}"
        ours = f"SELECT window_start AS w, {', '.join(shown)} FROM t{where} GROUP BY {', '.join(names)}{having}"
        return Pair(f"{ours} WINDOWING 2 SECONDS", theirs)
    by = f" GROUP BY {', '.join(names)}" if names else ""
    text = f"SELECT {', '.join(shown)} FROM t{where}{by}{having}{tail}"
    return Pair(text, text)
