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

ROOT = Path(__file__).parents[1]
ROOMS = ("elf", "agent", "overlay", "cbt", "query")
MODULES_IN_FOLDER_MAX = 15
SMALL_FILE_LINES = 40
OPENING = re.compile(
    r"(?:What|Whatever|Whatsoever|Who|Whoever|Whom|Whose|How|Where|When|Why|Of|Those|These|So|It|They|Them|The same)\b"
)
"""First words that no docstring begins with: it has a subject or an imperative, and says it at once."""

OPENING_DEBTS: dict[str, int] = {
    "agent": 3,
    "agent/archive/format": 17,
    "agent/archive/writer": 11,
    "agent/configuration": 14,
    "agent/control": 24,
    "agent/daemon": 18,
    "agent/feeding": 19,
    "agent/parsing": 6,
    "agent/programs": 33,
    "agent/runtime": 14,
    "agent/runtime/fleet": 9,
    "agent/runtime/function": 23,
    "agent/runtime/ingest": 51,
    "agent/runtime/job": 20,
    "agent/runtime/master": 49,
    "agent/runtime/messages": 3,
    "agent/runtime/model": 10,
    "agent/runtime/program_host": 9,
    "agent/runtime/reduce": 14,
    "agent/runtime/requests": 12,
    "agent/runtime/upstream": 9,
    "agent/sources": 9,
    "agent/sources/file": 25,
    "cbt/aggregates": 13,
    "cbt/algebra": 8,
    "cbt/codec": 1,
    "cbt/layout": 8,
    "cbt/sketches": 3,
    "cbt/tree": 20,
    "cbt/windows": 9,
    "elf": 18,
    "elf/batch/backfill": 13,
    "elf/batch/query": 14,
    "elf/batch/reconcile": 32,
    "elf/batch/session": 1,
    "elf/batch/table": 26,
    "elf/client": 19,
    "elf/commands": 4,
    "elf/commands/batch": 3,
    "elf/commands/ca": 3,
    "elf/commands/creator": 1,
    "elf/demo": 1,
    "elf/demo/agents": 5,
    "elf/demo/jobs": 6,
    "elf/demo/load": 4,
    "elf/demo/shop": 6,
    "elf/demo/story": 19,
    "elf/jobs": 7,
    "elf/options": 4,
    "elf/output": 10,
    "elf/program": 3,
    "elf/shell": 4,
    "elf/signing": 9,
    "elf/statements": 7,
    "elf/terminal": 2,
    "overlay": 10,
    "overlay/pastry": 1,
    "overlay/pastry/detection": 8,
    "overlay/pastry/forwarding": 1,
    "overlay/pastry/membership": 9,
    "overlay/pastry/tables": 3,
    "overlay/scribe": 22,
    "overlay/simulation": 4,
    "overlay/transport": 19,
    "overlay/transport/identity": 17,
    "overlay/transport/link": 38,
    "overlay/wire": 6,
    "query": 9,
    "query/binder": 12,
    "query/execution": 4,
    "query/functions": 16,
    "query/model": 5,
    "query/physical": 1,
    "query/plan": 23,
    "query/syntax": 10,
}
"""Folder → docstrings in it that begin otherwise."""
CIRCLE_DEBTS: list[set[str]] = [
    {"overlay.transport.identity.creator_certificates", "overlay.transport.identity.creators"}
]
"""Modules that import each other."""
SMALL_DEBTS: dict[str, str] = {
    "agent/archive/format/combined_records.py": "not yet merged",
    "agent/daemon/creator_trust.py": "not yet merged",
    "agent/daemon/disk_warnings.py": "not yet merged",
    "agent/daemon/kept_revocations.py": "not yet merged",
    "agent/daemon/limits_of_process.py": "not yet merged",
    "agent/daemon/shown_files.py": "not yet merged",
    "agent/runtime/job/code_calls.py": "not yet merged",
    "agent/runtime/model/rate_limit.py": "not yet merged",
    "agent/sources/file/renamed.py": "not yet merged",
    "cbt/sketches/murmur.py": "not yet merged",
    "elf/batch/table/catalog.py": "not yet merged",
    "elf/demo/agents/tether.py": "not yet merged",
    "elf/shell/vocabulary.py": "not yet merged",
    "elf/statements/window_query.py": "not yet merged",
    "overlay/pastry/membership/rate.py": "not yet merged",
    "overlay/pastry/tables/routing.py": "not yet merged",
    "overlay/scribe/fan_out.py": "not yet merged",
    "overlay/simulation/links.py": "not yet merged",
    "query/optimizer/cheap_first.py": "not yet merged",
    "query/optimizer/columns.py": "not yet merged",
    "query/optimizer/having.py": "not yet merged",
    "query/syntax/vocabulary.py": "not yet merged",
}
"""File of under 40 lines that only one other imports → why it stands alone."""
NAME_DEBTS: dict[str, int] = {
    "Accepted": 2,
    "Acknowledged": 3,
    "Allowance": 2,
    "Answer": 2,
    "Answered": 3,
    "Archive": 2,
    "Archiving": 2,
    "Ask": 3,
    "Attachment": 2,
    "Batch": 2,
    "Call": 3,
    "Column": 3,
    "Connection": 2,
    "Core": 2,
    "Delivered": 2,
    "Describe": 2,
    "Ended": 2,
    "Entry": 2,
    "Follow": 2,
    "Found": 2,
    "Function": 4,
    "Identity": 2,
    "Job": 2,
    "Kind": 3,
    "Limits": 2,
    "Literal": 2,
    "Load": 2,
    "Loaded": 2,
    "Log": 2,
    "Multicast": 2,
    "Node": 2,
    "Parameter": 3,
    "Place": 3,
    "ProtocolError": 2,
    "Published": 2,
    "Query": 2,
    "Reader": 2,
    "Received": 2,
    "Result": 2,
    "RevocationList": 2,
    "Route": 2,
    "Rows": 2,
    "Seen": 2,
    "Show": 2,
    "Source": 2,
    "Span": 4,
    "Standing": 2,
    "State": 2,
    "Stop": 2,
    "Stopped": 2,
    "Store": 2,
    "Submit": 2,
    "Summary": 2,
    "Table": 3,
    "Typed": 2,
    "Updated": 2,
    "Window": 4,
    "WindowSize": 3,
    "Wire": 2,
}
"""Public class name → how many classes have it."""
UNUSED_DEBTS: dict[str, str] = {
    "agent.archive.format.row_key:key_range": "not yet removed",
    "cbt.algebra.items:subtract_items": "not yet removed",
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
