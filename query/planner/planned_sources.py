"""Makes sources of keyed elements: what a stream brings of each event, and the type that its events form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from query.model.expression import Expression, Reference, references
from query.model.limits import ROWS_MAX
from query.plan.plan import Output, Plan, PlanColumn
from query.plan.spelling import Spelling
from query.syntax import ast
from query.syntax.printer import format_expression, format_streams

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_NAME_CHARACTERS_MAX = 40
EVERY = ("*",)
"""The path of the column that stands for all, where EXPLAIN does not know them."""
_Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source: the type its events form, its streams, what it reads of them, and the columns it gives as fields."""

    type: str
    stream: str
    columns: tuple[PlanColumn, ...]
    where: Expression | None
    fields: tuple[tuple[PlanColumn, _Field], ...]

    @property
    def plan(self) -> Plan:
        """The plan of the source: a row for each event it keeps."""
        output = tuple(Output(name, Reference(one.name, one.type)) for one, (name, _) in self.fields)
        return Plan(self.stream, self.columns, None, "rows", self.where, (), (), (), output, (), ROWS_MAX)

    @property
    def source(self) -> dict[str, object]:
        """The source in the graph."""
        spelled = Spelling({one.name: _spelled(one) for one in self.columns})
        items = (_item(format_expression(_spelled(one)), name) for one, (name, _) in self.fields)
        where = "" if self.where is None else f" WHERE {spelled(self.where)}"
        text = f"SELECT {', '.join(items)} FROM {format_streams(self.stream)}{where}"
        return {"type": self.type, "query": text, "plan": self.plan.to_wire()}

    @property
    def event_type(self) -> dict[str, object]:
        """The type of its events in the graph."""
        return {"name": self.type, "fields": [list(field) for _, field in self.fields]}

    def names(self, columns: Iterable[str]) -> list[str]:
        """The names of the fields of columns."""
        names = {column.name: name for column, (name, _) in self.fields}
        return [names[one] for one in columns]


def planned_source(
    type_: str,
    stream: str,
    columns: Sequence[PlanColumn],
    where: Expression | None,
    used: Collection[str],
    texts: Collection[str],
    *,
    prefix: str = "",
) -> PlannedSource:
    """The source that gives the columns that are `used`. `texts`: columns whose fields are of type any. `prefix`: how
    no field's name begins."""
    needed = {*used, *(() if where is None else (one.name for one in references(where)))}
    read = tuple(one for one in columns if one.name in needed)
    given = [one for one in read if one.name in used]
    names: dict[str, None] = {}
    for number, column in enumerate(given):
        name = "all_columns" if column.path == EVERY else re.sub(r"\W", "_", "_".join(column.path))
        is_free = name not in names and not (prefix and name.startswith(prefix))
        names[name if _is_plain(name) and is_free else f"column_{number}"] = None
    kinds = ("any" if one.name in texts else one.type for one in given)
    fields = tuple(zip(given, zip(names, kinds, strict=True), strict=True))
    return PlannedSource(type_, stream, read, where, fields)


def columns_as_texts(columns: Iterable[PlanColumn]) -> set[str]:
    """The columns whose values travel as canonical JSON: a number may be an integer or not, and stays what it is."""
    return {one.name for one in columns if one.type in ("any", "number")}


def type_name(alias: str, default: str) -> str:
    """The name of a type of events of that alias."""
    name = re.sub(r"\W", "_", alias)
    return name if _is_plain(name) else default


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[^\W\d]\w*", name) is not None and len(name) <= _NAME_CHARACTERS_MAX


def _spelled(column: PlanColumn) -> ast.Expression | ast.Star:
    return ast.Star() if column.path == EVERY else ast.ColumnRef(column.path)


def _item(text: str, name: str) -> str:
    return text if text in (name, "*") else f"{text} AS {name}"
