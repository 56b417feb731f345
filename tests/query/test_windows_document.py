"""Every row of the tables in docs/elf-ql-windows.md, executed, and the form of other dialects beside ELF's."""

from __future__ import annotations

import json
import re

import pytest
from case_engines import local_rows
from case_files import Table
from test_semantics_document import DOCUMENT as SEMANTICS
from test_semantics_document import rows_of

import query
from query import format_timestamp

DOCUMENT = SEMANTICS.parent / "elf-ql-windows.md"


@pytest.mark.parametrize(("events", "text", "gives"), rows_of(DOCUMENT))
def test_the_document_tells_the_truth(events, text, gives, tmp_path):
    rows = [json.loads(event) for event in re.findall("`(.+?)`", events)]
    names = list(rows[0])
    values = [[format_timestamp(1000 * row["ts"]), *(row[name] for name in names[1:])] for row in rows]
    table = Table(dict.fromkeys(names, "any"), values, "ts")
    assert local_rows(text.strip("`"), {"web": table}, 2, tmp_path) == json.loads(gives.strip("`"))


def test_the_field_and_elf_say_the_same():
    pairs = re.findall(r"^\| `(FROM web WINDOW .*?)` \| `(WINDOWING .*?)` \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert len(pairs) >= 3
    for field, paper in pairs:
        catalog = {"web": query.Schema({}, open=True)}
        plans = [
            query.analyze(query.parse(f"SELECT COUNT(*) {text}"), catalog) for text in (field, f"FROM web {paper}")
        ]
        assert plans[0] == plans[1]
