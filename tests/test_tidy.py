"""Keeps the house in order. Numbers in DEBTS may only go down: paying one off means lowering it here."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # `make check` runs them
ROOT = Path(__file__).parents[1]
ROOMS = ("elf", "agent", "overlay", "cbt", "query")
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 60
BANNED_NAMES = {"utils", "util", "helper", "helpers", "manager", "common", "misc"}
BANNED_TEXT = {
    "unfinished": re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"),
    "machine path": re.compile(r"/(?:work|home|root)/\w"),
    "registry address": re.compile(r"pypi\.(?:org|io)|pythonhosted|registry\.npmjs|deb\.debian\.org"),
    "unsafe call": re.compile(r"\b(?:pickle|marshal)\b|\b(?:eval|exec)\("),
}
EXECUTES_JOBS = "elf/program/code.py"
"""The one place that executes a file: in the process of a job's code, and where its creator submits it."""
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".lark", ".json", ".yml", ""}

DEBTS: dict[str, int] = {}
"""`path` or `path:function` → lines it has over the limit."""


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of files to check")
    paths = (ROOT / line for line in listed.stdout.splitlines())
    return [path for path in paths if path.is_file() and path.suffix in TEXT_SUFFIXES]


def sources() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".py"]


def test_files_and_functions_are_small() -> None:
    excess: Counter[str] = Counter()
    for path in sources():
        name = str(path.relative_to(ROOT))
        text = path.read_text()
        excess[name] = len(text.splitlines()) - FILE_LINES_MAX
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                excess[f"{name}:{node.name}"] = node.end_lineno - node.lineno + 1 - FUNCTION_LINES_MAX
    assert {name: lines for name, lines in excess.items() if lines > 0} == DEBTS


def test_names_say_what_things_are() -> None:
    assert [str(path) for path in sources() if path.stem in BANNED_NAMES] == []


@pytest.mark.parametrize("what", BANNED_TEXT)
def test_nothing_is_left_lying_about(what: str) -> None:
    pattern = BANNED_TEXT[what]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in tracked_files()
        if path != Path(__file__) and path.name not in ("LICENSE", "constraints.txt")
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line) and not (what == "unsafe call" and path == ROOT / EXECUTES_JOBS)
    ]
    assert found == []


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_name_what_they_offer(room: str) -> None:
    tree = ast.parse((ROOT / room / "__init__.py").read_text())
    names = [target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
             if isinstance(target, ast.Name)]  # fmt: skip
    assert "__all__" in names
    assert ast.get_docstring(tree)


def test_every_public_module_says_what_it_is() -> None:
    missing = [
        str(path.relative_to(ROOT))
        for path in sources()
        if path.relative_to(ROOT).parts[0] in ROOMS
        and path.read_text().strip()
        and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert missing == []
