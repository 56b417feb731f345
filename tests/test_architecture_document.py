"""The map in docs/architecture.md names places that are there: files, folders, and the rows to add."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text()
PLACES = sorted(set(re.findall(r"`([a-z_]+(?:/[\w.]+)+/?)`", TEXT)))
ROWS = sorted(set(re.findall(r"`([\w/]+\.py)`: `(\w+)`", TEXT)))
ADDED = ("a source", "an aggregate", "a clause", "a straggler policy", "a grouping", "a format", "a command")


@pytest.mark.parametrize("place", PLACES)
def test_each_place_exists(place: str) -> None:
    assert (ROOT / place).exists()


@pytest.mark.parametrize(("file", "name"), ROWS)
def test_each_row_is_defined_in_its_file(file: str, name: str) -> None:
    defined = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        match node:
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found):
                defined.add(found)
            case ast.Assign(targets=targets):
                defined |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=found)):
                defined.add(found)
    assert name in defined


@pytest.mark.parametrize("what", ADDED)
def test_the_page_says_where_to_add(what: str) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| {what}"))
    assert re.search(r"`[\w/]+/[\w.]*`|compiler\.md#the-stops-of-a-clause", row)


def test_packages_in_the_picture_exist() -> None:
    """Words before a slash in the picture of rooms are folders of some room."""
    picture = TEXT.split("```")[1]
    folders = {path.name for room in ("elf", "agent", "overlay", "cbt", "query") for path in (ROOT / room).rglob("*")}
    named = set(re.findall(r"\b([a-z_]+)/", picture)) - {"elf", "agent", "overlay", "cbt", "query"}
    assert named <= folders, named - folders
