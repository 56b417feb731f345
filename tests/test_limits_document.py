"""The page of limits tells the truth: each constant has the value that it says, and each test is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "limits.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| limit ")
]
UNITS = {"": 1, "s": 1, "ms": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PLACE = re.compile(r"`([\w/]+)\.py`: `(\w+)`")
MENTIONED = (
    "RUN_BYTES_MAX",
    "FRAME_BYTES_MAX",
    "RESULT_BYTES_MAX",
    "LINE_BYTES_MAX",
    "GROUPS_DEFAULT",
    "ROWS_BYTES_MAX",
)


def value_of(shown: str) -> float:
    number, _, unit = shown.replace(",", "").partition(" ")
    return float(number) * UNITS[unit]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_limit_has_the_value_that_the_page_says(row: list[str]) -> None:
    _, constant, value, edge, _ = row
    place = PLACE.fullmatch(constant)
    assert place is not None, constant
    module, name = place.groups()
    assert getattr(importlib.import_module(module.replace("/", ".")), name) == value_of(value)
    assert edge


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_test_is_there(row: list[str]) -> None:
    found = PLACE.findall(row[4])
    assert found
    for file, name in found:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / f"{file}.py").read_text(), re.MULTILINE), name


@pytest.mark.parametrize("name", MENTIONED)
def test_the_important_ones_are_in_it(name: str) -> None:
    assert f"`{name}` |" in TEXT
