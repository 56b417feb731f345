"""Every example in docs/elf-ql-sources.md, executed by `elf local` with two agents."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from case_engines import ARRIVAL_MS
from case_files import comparable

from elf.local import LocalOptions, LocalRun, LocalSource

DOCUMENT = Path(__file__).parents[2] / "docs" / "elf-ql-sources.md"


def cells():
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def examples():
    return [
        pytest.param(query.strip("`"), json.loads(gives.strip("`")), id=rule)
        for rule, *_, query, gives in (row for row in cells() if len(row) >= 3)
        if query.startswith("`SELECT")
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The streams and tables of the page."""
    folder = tmp_path_factory.mktemp("sources")
    files = {}
    for name, rows, *_ in (row for row in cells() if len(row) == 2 and row[1].startswith('`{"')):
        files[name] = folder / f"{name}.json"
        files[name].write_text("".join(f"{row}\n" for row in re.findall("`(.+?)`", rows)), encoding="utf-8")
    streams = [LocalSource(name, (str(path),)) for name, path in files.items() if not name.startswith("table ")]
    tables = {name.removeprefix("table "): str(path) for name, path in files.items() if name.startswith("table ")}
    assert (len(streams), len(tables)) == (3, 1)
    return streams, LocalOptions(ARRIVAL_MS, agents=2, tables=tables)


def test_the_document_has_its_examples():
    assert len(examples()) >= 15


@pytest.mark.parametrize(("query", "gives"), examples())
def test_the_document_tells_the_truth(query, gives, world):
    run = LocalRun(query, *world)
    rows = [[row[name] for name in run.columns] for result in run.results() for row in result.rows]
    assert comparable(rows, ordered=False) == comparable(gives, ordered=False)
