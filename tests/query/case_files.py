"""The cases of tests/query/cases: files to cases, and what engines answered to something comparable."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "cases"
TYPES = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
    "any": "VARCHAR",
}
"""The types of a table's columns, and what SQL engines call them."""
_FILE_FIELDS = {"tables", "cases"}
_CASE_FIELDS = {"name", "tables", "query", "expected", "duckdb", "ordered", "notes"}


@dataclass(frozen=True, slots=True)
class Table:
    """The content of a stream. `columns`: name to one of TYPES. `time`: the column with the events' times, if any has.

    `lookup`: it is no stream but a table to join with, a file of this format.
    """

    columns: dict[str, str]
    rows: list[list[Any]]
    time: str | None = None
    lookup: str | None = None

    def events(self) -> list[dict[str, Any]]:
        """The rows as JSON objects; NULL is a field that is not there."""
        return [
            {name: value for name, value in zip(self.columns, row, strict=True) if value is not None}
            for row in self.rows
        ]


@dataclass(frozen=True, slots=True)
class Case:
    """One query and what it gives; see cases/README.md."""

    id: str
    tables: dict[str, Table]
    query: str
    expected: list[list[Any]] | None
    reference: str | None
    ordered: bool


def read_cases(folder: Path = FOLDER) -> list[Case]:
    """Every case of every file, in order; ValueError says which one is written wrongly."""
    return [case for path in sorted(folder.glob("*.json")) for case in _cases_of(path)]


def _cases_of(path: Path) -> list[Case]:
    content = json.loads(path.read_text(encoding="utf-8"))
    _require(content.keys() <= _FILE_FIELDS, f"{path.name}: a file has the fields {sorted(_FILE_FIELDS)}")
    shared = content.get("tables", {})
    return [_case(one, shared, f"{path.stem}: {one.get('name')}") for one in content["cases"]]


def _case(one: dict[str, Any], shared: dict[str, Any], id_: str) -> Case:
    _require(one.keys() <= _CASE_FIELDS, f"{id_}: a case has the fields {sorted(_CASE_FIELDS)}")
    tables = {name: Table(**table) for name, table in (shared | one.get("tables", {})).items()}
    for table in tables.values():
        _require(set(table.columns.values()) <= TYPES.keys(), f"{id_}: a column has one of the types {list(TYPES)}")
    expected, duckdb = one.get("expected"), one.get("duckdb", True)
    _require(expected is not None or duckdb is not False, f"{id_}: nothing says what the query gives")
    _require(duckdb is True or "notes" in one, f"{id_}: notes have to say how DuckDB differs")
    reference = one["query"] if duckdb is True else duckdb or None
    return Case(id_, tables, one["query"], expected, reference, one.get("ordered", False))


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def comparable(rows: list[list[Any]], *, ordered: bool) -> list[list[Any]]:
    """Rows as engines can be compared by: times as texts, numbers to 12 digits, sorted if any order will do."""
    plain = [[_plain(value) for value in row] for row in rows]
    return plain if ordered else sorted(plain, key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        text = aware.astimezone(UTC).isoformat(timespec="milliseconds" if aware.microsecond else "seconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        rounded = value if value.is_integer() else float(f"{value:.12g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 2**63 else rounded
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
