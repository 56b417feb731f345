"""Every row of the tables in docs/semantics.md, executed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from query_pipeline import run

DOCUMENT = Path(__file__).parents[2] / "docs" / "semantics.md"


def rows_of(document):
    """The rows of its tables that have four columns, but for heads."""
    rows = []
    for line in document.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "rule":
            rows.append(pytest.param(*cells[1:], id=cells[0]))
    return rows


def check_row(events, query, gives):
    holds = [json.loads(event) for event in re.findall("`(.+?)`", events)] or [{}]
    text = query.strip("`") if query.startswith("`SELECT") else f"SELECT {query.strip('`')} FROM web"
    table = [event for event in holds if "@app" in event]
    holds = [event for event in holds if "@app" not in event]
    rows = [list(row.values()) for row in run(text, holds, table=table)]
    expected = json.loads(gives.strip("`"))
    if not isinstance(expected, list):
        expected = [[expected]]
    assert json.dumps(rows) == json.dumps(expected)


def test_the_document_has_its_rows():
    assert len(rows_of(DOCUMENT)) >= 60


@pytest.mark.parametrize(("events", "query", "gives"), rows_of(DOCUMENT))
def test_the_document_tells_the_truth(events, query, gives):
    check_row(events, query, gives)
