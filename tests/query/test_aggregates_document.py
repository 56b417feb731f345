"""docs/elf-ql-aggregates.md: its table is that of the code, and everything it shows is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from query_pipeline import run
from test_semantics_document import check_row, rows_of

from query.functions.aggregates import AGGREGATES, COLLECTED_MAX, DISTINCT_MAX, REACH, WIDE_MAX

DOCUMENT = Path(__file__).parents[2] / "docs" / "elf-ql-aggregates.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
TAKES = {"any": "anything", "no time": "anything but times", "number": "numbers", "boolean": "conditions"}
EVENTS = [json.loads(line) for line in re.findall(r"^    (\{.+\})$", TEXT, re.MULTILINE)]


def functions():
    lines = [line.strip("|").split(" | ") for line in TEXT.splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in lines if len(cells) == 6}


def test_the_table_has_every_aggregate():
    assert list(functions()) == [row.signature for row in AGGREGATES.values()]


@pytest.mark.parametrize("key", AGGREGATES)
def test_the_table_says_what_the_code_says(key):
    row = AGGREGATES[key]
    takes, gives, doc, example, result = functions()[row.signature]
    assert (takes, doc, example) == (TAKES[row.takes], row.doc, f"`{row.example}`")
    assert gives == ("as x" if row.gives == "argument" else row.gives)
    (found,) = run(f"SELECT {row.example} AS found FROM web", EVENTS)
    assert json.dumps(found["found"]) == result.strip("`")


@pytest.mark.parametrize(("events", "query", "gives"), rows_of(DOCUMENT))
def test_the_rules_are_so(events, query, gives):
    check_row(events, query, gives)


def test_the_errors_and_limits_are_those_of_the_code():
    errors = {
        "4.2 % of the count": AGGREGATES["APPROX_COUNT_DISTINCT"].error((12,)),
        "1.3 % of all values": AGGREGATES["APPROX_QUANTILE"].error((0.5, 200)),
        "0.0081 % of all values": AGGREGATES["APPROX_TOP_K"].error((5, 10_000)),
        "within 1 % in 99": AGGREGATES["COUNT DISTINCT"].limited_error,
    }
    for told, error in errors.items():
        assert told in TEXT
        assert f"{100 * error:.2g} %" in told
    for limit in (DISTINCT_MAX, COLLECTED_MAX, REACH, WIDE_MAX):
        assert f"{limit:,}" in TEXT
