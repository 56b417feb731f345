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
from query.syntax.printer import format_streams

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_NAME_CHARACTERS_MAX = 40
EVERY = ("*",)
"""The path of the column that stands for all, where EXPLAIN does not know them."""
_Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source: the type its events form, its streams, what it reads of them, and what it gives, each a field.

    `fields` are columns, `computed` expressions over what is read.
    """

    type: str
    stream: str
    columns: tuple[PlanColumn, ...]
    where: Expression | None
    fields: tuple[tuple[PlanColumn, _Field], ...]
    computed: tuple[tuple[Expression, _Field], ...] = ()

    @property
    def plan(self) -> Plan:
        """The plan of the source: a row for each event it keeps."""
        output = tuple(Output(name, expression) for expression, (name, _) in self._given)
        return Plan(self.stream, self.columns, None, "rows", self.where, (), (), (), output, (), ROWS_MAX)

    @property
    def source(self) -> dict[str, object]:
        """The source in the graph."""
        spelled = Spelling({one.name: _spelled(one) for one in self.columns})
        items = (_item(spelled(expression), name) for expression, (name, _) in self._given)
        where = "" if self.where is None else f" WHERE {spelled(self.where)}"
        text = f"SELECT {', '.join(items)} FROM {format_streams(self.stream)}{where}"
        return {"type": self.type, "query": text, "plan": self.plan.to_wire()}

    @property
    def event_type(self) -> dict[str, object]:
        """The type of its events in the graph."""
        return {"name": self.type, "fields": [list(field) for _, field in self._given]}

    def names(self, columns: Iterable[str]) -> list[str]:
        """The names of the fields of columns."""
        names = {column.name: name for column, (name, _) in self.fields}
        return [names[one] for one in columns]

    @property
    def _given(self) -> tuple[tuple[Expression, _Field], ...]:
        columns = tuple((Reference(one.name, one.type), field) for one, field in self.fields)
        return (*columns, *self.computed)


def planned_source(
    type_: str,
    stream: str,
    columns: Sequence[PlanColumn],
    where: Expression | None,
    used: Collection[str],
    texts: Collection[str],
    *,
    computed: Sequence[Expression] = (),
    prefix: str = "",
) -> PlannedSource:
    """The source that gives the columns that are `used`, and what is `computed` of others. `texts`: columns whose
    fields are of type any. `prefix`: how no field's name begins."""
    conditions = (*computed, *(() if where is None else (where,)))
    needed = {*used, *(one.name for expression in conditions for one in references(expression))}
    read = tuple(one for one in columns if one.name in needed)
    given = [one for one in read if one.name in used]
    names: dict[str, None] = {}
    for number, column in enumerate(given):
        name = "all_columns" if column.path == EVERY else re.sub(r"\W", "_", "_".join(column.path))
        is_free = name not in names and not (prefix and name.startswith(prefix))
        names[name if _is_plain(name) and is_free else f"column_{number}"] = None
    kinds = ("any" if one.name in texts else one.type for one in given)
    fields = tuple(zip(given, zip(names, kinds, strict=True), strict=True))
    made = tuple((one, (_free(f"key_{number}", names), _kind(one))) for number, one in enumerate(computed))
    return PlannedSource(type_, stream, read, where, fields, made)


def columns_as_texts(columns: Iterable[PlanColumn]) -> set[str]:
    """The columns whose values travel as canonical JSON: a number may be an integer or not, and stays what it is."""
    return {one.name for one in columns if one.type in ("any", "number")}


def type_name(alias: str, default: str) -> str:
    """The name of a type of events of that alias."""
    name = re.sub(r"\W", "_", alias)
    return name if _is_plain(name) else default


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[^\W\d]\w*", name) is not None and len(name) <= _NAME_CHARACTERS_MAX


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _kind(expression: Expression) -> str:
    return expression.type if expression.type in ("string", "integer", "boolean", "timestamp") else "any"


def _spelled(column: PlanColumn) -> ast.Expression | ast.Star:
    return ast.Star() if column.path == EVERY else ast.ColumnRef(column.path)


def _item(text: str, name: str) -> str:
    return text if text in (name, "*") else f"{text} AS {name}"
