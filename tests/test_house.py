"""Keeps the map of the house true: imports run one way, folders stay small, names say one thing, prose is plain.

Numbers in the tables of debts may only go down: paying one off means lowering it here.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # `make check` runs them
ROOT = Path(__file__).parents[1]
ROOMS = ("elf", "agent", "overlay", "cbt", "query")
MODULES_IN_FOLDER_MAX = 15
SMALL_FILE_LINES = 40
OPENING = re.compile(
    r"(?:What|Whatever|Whatsoever|Who|Whoever|Whom|Whose|How|Where|When|Why|Of|Those|These|So|It|They|Them|The same)\b"
)
"""First words that no docstring begins with: it has a subject or an imperative, and says it at once."""

OPENING_DEBTS: dict[str, int] = {}
"""Folder → docstrings in it that begin otherwise."""
CIRCLE_DEBTS: list[set[str]] = []
"""Modules that import each other."""
SMALL_DEBTS: dict[str, str] = {
    "cbt/sketches/murmur.py": "a published hash function, with the vectors of its own test",
    "elf/shell/typing_ahead.py": "the mode of the terminal, apart from the shell that reads it",
    "query/optimizer/order_predicates.py": "one rule a file",
    "query/optimizer/prune_columns.py": "one rule a file",
    "query/optimizer/pushdown_having.py": "one rule a file",
}
"""File of under 40 lines that only one other imports → why it stands alone."""
NAME_DEBTS: dict[str, int] = {}
"""Public class name → how many classes have it."""
UNUSED_DEBTS: dict[str, str] = {
    "cbt.algebra.items:subtract_items": "part of the algebra that tests hold every aggregate to",
}
"""`module:name` → why it is public though nothing imports it."""


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Every module of the product by its dotted name."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = (path, ast.parse(path.read_text()))
    return found


def imported(tree: ast.AST) -> set[str]:
    """The modules of the product that a tree imports, wherever in it, those for types alone included."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
            names.add(node.module)
    return {name for name in names if name in modules()}


@cache
def import_graph() -> dict[str, frozenset[str]]:
    """Module → modules it imports. A package's face counts as imported only where the import names nothing below it."""
    graph = {}
    for name, (_, tree) in modules().items():
        reached = imported(tree) - {name}
        faces = {one for one in reached if any(other.startswith(f"{one}.") for other in reached)}
        graph[name] = frozenset(reached - faces)
    return graph


def circles(graph: dict[str, frozenset[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = set()
            while node not in component:
                component.add(stack.pop())
            if len(component) > 1:
                found.append(component)

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_no_modules_import_each_other() -> None:
    assert sorted(map(sorted, circles(import_graph()))) == sorted(map(sorted, CIRCLE_DEBTS))


def test_folders_stay_small() -> None:
    sizes = Counter(path.parent for path, _ in modules().values() if path.stem not in ("__init__", "__main__"))
    assert {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > MODULES_IN_FOLDER_MAX} == {}


def test_small_files_have_several_importers() -> None:
    importers = Counter(other for reached in import_graph().values() for other in reached)
    lonely = {
        str(path.relative_to(ROOT))
        for name, (path, _) in modules().items()
        if path.stem not in ("__init__", "__main__")
        and "commands" not in path.parts
        and len(path.read_text().splitlines()) < SMALL_FILE_LINES
        and importers[name] < 2
    }
    assert lonely == set(SMALL_DEBTS)


def test_public_class_names_are_unique() -> None:
    homes = defaultdict(list)
    for name, (_, tree) in modules().items():
        if name.startswith("elf.jobs."):
            continue  # each is a program of its own, as a user would write it
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: len(places) for name, places in homes.items() if len(places) > 1} == NAME_DEBTS


def test_public_names_are_used() -> None:
    texts = {name: path.read_text() for name, (path, _) in modules().items()}
    words = {name: Counter(re.findall(r"\w+", text)) for name, text in texts.items()}
    total: Counter[str] = sum(words.values(), Counter())
    for path in (ROOT / "benchmarks").rglob("*.py"):
        total.update(re.findall(r"\w+", path.read_text()))
    unused = set()
    for name, (_, tree) in modules().items():
        if name.startswith("elf.jobs."):
            continue
        for node in tree.body:
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not node.name.startswith("_")
                and not node.decorator_list
                and total[node.name] == 1
            ):
                unused.add(f"{name}:{node.name}")
    assert unused == set(UNUSED_DEBTS)


def docstrings(tree: ast.Module) -> list[tuple[int, str]]:
    """Every docstring of a module, those below constants and fields included, with its line."""
    return [
        (statement.lineno, statement.value.value.strip())
        for node in ast.walk(tree)
        if not isinstance(node, ast.Lambda | ast.IfExp)
        for statement in getattr(node, "body", [])
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_subject_or_an_imperative(room: str) -> None:
    begun: Counter[str] = Counter()
    lines = []
    for path, tree in modules().values():
        if path.relative_to(ROOT).parts[0] != room:
            continue
        for line, text in docstrings(tree):
            if OPENING.match(text):
                folder = str(path.parent.relative_to(ROOT))
                begun[folder] += 1
                lines.append(f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}")
    debts = {folder: count for folder, count in OPENING_DEBTS.items() if folder.split("/")[0] == room}
    assert dict(begun) == debts, "\n".join(lines)
