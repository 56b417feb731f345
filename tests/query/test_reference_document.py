"""Every example in docs/elf-ql.md and of the table of functions, executed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from query_pipeline import run

from query import parse
from query.functions import FAMILIES, FUNCTIONS
from query.syntax import ast
from query.syntax.printer import format_expression

DOCUMENT = Path(__file__).parents[2] / "docs" / "elf-ql.md"
_CELLS = re.compile(r"(?<!\\)\|")


def table_rows():
    """The cells of each row of each table."""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            yield [cell.strip().replace("\\|", "|") for cell in _CELLS.split(line)[1:-1]]


def examples():
    """(example, what it gives): the last two cells of a row, if both are code."""
    for cells in table_rows():
        example, gives = cells[-2:]
        if example.startswith("`") and gives.startswith("`"):
            yield example.strip("`"), gives.strip("`")


@pytest.mark.parametrize(("example", "gives"), list(examples()))
def test_the_document_tells_the_truth(example, gives):
    [row] = run(f"SELECT {example} FROM web", [{}])
    [value] = row.values()
    assert json.dumps(value) == json.dumps(json.loads(gives))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_document_has_every_function(family):
    rows = [tuple(cells) for cells in table_rows()]
    for one in FAMILIES[family]:
        assert (f"`{one.signature}`", one.doc, f"`{one.example}`", f"`{one.result}`") in rows


def test_each_function_is_there_once():
    assert len(FUNCTIONS) == sum(map(len, FAMILIES.values()))
    assert len(list(examples())) > len(FUNCTIONS)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=lambda function: function.name)
def test_a_function_of_columns_gives_the_same_as_of_constants(function):
    """Constants are computed when a query is compiled, columns of events when they come."""
    if function.gives == "same":
        return  # nothing would tell the type of the columns
    call, event = parse(f"SELECT {function.example}").select[0].expression, {}
    arguments = list(call.arguments)
    for place, argument in enumerate(arguments):
        if not function.parameter(place).constant:
            value = argument.operand.value if isinstance(argument, ast.Cast) else argument.value
            event[f"c{place}"] = value
            arguments[place] = ast.ColumnRef((f"c{place}",))
    text = format_expression(ast.with_operands(call, arguments))
    rows = run(f"SELECT {text} AS v, c0 IS NULL AS n FROM web ORDER BY n", [{}, event])
    assert rows[0]["v"] == json.loads(function.result)
    assert rows[1] == {"v": "" if function.name == "CONCAT" else None, "n": True}
