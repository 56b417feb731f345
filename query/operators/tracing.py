"""Traces what plans compute back to the columns of streams, and tells which expressions may partition an operator.

All functions of ELF QL are deterministic. So rows that agree in `url` agree in `URL_HOST(url)` too, and an operator
that groups by the one may be partitioned by the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.model.expression import Constant, Operation, Reference, references
from query.model.types import family
from query.plan.spelling import Spelling
from query.plan.walk import with_references
from query.syntax import ast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from query.model.expression import Expression
    from query.operators.operator import Attribute
    from query.plan.plan import Plan, PlanColumn

READ_AS, FIELD, UNION = "read as", "field", "union"
"""Operations beside those of ELF QL: a value read as another type, a field of a value, a column of several streams."""
_SEPARATOR = "\0"
"""Stands between the parts of a source column's name: it is in no name that people give."""


def source_column(source: str, path: Sequence[str]) -> Reference:
    """A column of a stream, or of rows from outside the job."""
    return Reference(_SEPARATOR.join(("", source, *path)), "any")


def made_column(query_name: str, number: int, name: str) -> Reference:
    """A column that a query makes of aggregates or of bounds of windows; `number`: that of its level."""
    return Reference(_SEPARATOR.join((str(number), query_name, name)), "any")


def traced(expression: Expression, meanings: Mapping[str, Expression]) -> Expression:
    """The expression over columns of sources. `meanings`: these, by the names that the expression has for them."""
    return with_references(expression, meanings)


def stream_meanings(plan: Plan) -> dict[str, Expression]:
    """The meanings of the columns that a plan reads of streams, or of events of elements."""
    if not plan.branches:
        return _columns_of(plan.stream, plan.columns)
    branches = []
    for branch in plan.branches:
        read = _columns_of(branch.stream, branch.columns)
        branches.append([traced(output, read) for output in branch.outputs])
    united = zip(plan.columns, zip(*branches, strict=True), strict=True)
    return {one.name: _read_as(Operation(UNION, meanings, one.type), one.type) for one, meanings in united}


def _columns_of(stream: str, columns: Iterable[PlanColumn]) -> dict[str, Expression]:
    return {one.name: _read_as(source_column(stream, one.path), one.type) for one in columns}


def row_meanings(columns: Iterable[PlanColumn], source: str, rows: Mapping[str, Expression]) -> dict[str, Expression]:
    """The meanings of columns of a job's rows, whose own meanings are these by name, as far as they are known."""
    return {one.name: _read_as(_of_row(one.path, source, rows), one.type) for one in columns}


def determines(keys: frozenset[Expression], expression: Expression) -> bool:
    """Whether rows that agree in the keys agree in the expression. O(size of the expression).

    >>> url = source_column("web", ["url"])
    >>> host = Operation("URL_HOST", (url,), "string")
    >>> determines(frozenset([url]), host), determines(frozenset([host]), url)
    (True, False)
    """
    if expression in keys or isinstance(expression, Constant):
        return True
    return isinstance(expression, Operation) and all(determines(keys, one) for one in expression.operands)


def varies(expression: Expression) -> bool:
    """Whether an expression is more than a constant, so that it can partition anything."""
    return next(references(expression), None) is not None


def in_order(expressions: Iterable[Expression]) -> Attribute:
    """Expressions in the order of their texts, those of one text in the order of their sources: the same everywhere."""
    return tuple(sorted(expressions, key=lambda one: (attribute_text((one,)), repr(one))))


def least(attributes: Iterable[Attribute]) -> Attribute:
    """The expressions that say the partition where all of these attributes do: without those that others determine."""
    left = list(in_order({one for attribute in attributes for one in attribute}))
    for one in tuple(left):
        others = frozenset(left) - {one}
        if determines(others, one):
            left.remove(one)
    return tuple(left)


def attribute_text(attribute: Attribute, *, qualified: bool = False) -> str:
    """An attribute in ELF QL, `qualified` with the sources of its columns.

    >>> name = source_column("web", ["user", "name"])
    >>> attribute_text((name,)), attribute_text((name,), qualified=True)
    ('user.name', 'web.user.name')
    """
    return ", ".join(_Text(qualified=qualified)(one) for one in attribute)


def sources_of(attribute: Attribute) -> set[str]:
    """The sources of an attribute's columns, without the query itself."""
    return {one.name.split(_SEPARATOR)[1] for part in attribute for one in references(part)} - {""}


class _Text:
    """Turns traced expressions into ELF QL."""

    def __init__(self, *, qualified: bool) -> None:
        self._qualified = qualified
        self._columns: dict[str, ast.Expression | ast.Star] = {}

    def __call__(self, expression: Expression) -> str:
        return Spelling(self._columns)(self._shown(expression))

    def _shown(self, expression: Expression) -> Expression:
        """The expression as people write it; its columns become known by their names in it."""
        match expression:
            case Reference(name=name):
                _, source, *path = name.split(_SEPARATOR)
                self._columns[name] = ast.ColumnRef((source, *path) if self._qualified and source else tuple(path))
            case Operation(operator=operator, operands=(first, *_)) if operator in (READ_AS, UNION):
                return self._shown(first)
            case Operation(operator=operator, operands=(of, Constant(value=field))) if operator == FIELD:
                return self._field(self._shown(of), str(field))
            case Operation(operator=operator, operands=operands, type=type_):
                return Operation(operator, tuple(map(self._shown, operands)), type_)
        return expression

    def _field(self, of: Expression, field: str) -> Reference:
        """A field of a value, as people write it of a column."""
        column = self._columns.get(of.name) if isinstance(of, Reference) else None
        parts = column.parts if isinstance(column, ast.ColumnRef) else (Spelling(self._columns)(of),)
        name = _SEPARATOR.join((*parts, field))
        self._columns[name] = ast.ColumnRef((*parts, field))
        return Reference(name, "any")


def _of_row(path: tuple[str, ...], source: str, rows: Mapping[str, Expression]) -> Expression:
    """A column of a job's row: of its name, or a field of one."""
    for length in range(len(path), 0, -1):
        found = rows.get(".".join(path[:length]))
        if found is not None:
            for field in path[length:]:
                found = Operation(FIELD, (found, Constant(field, "string")), "any")
            return found
    return source_column(source, path)


def _read_as(expression: Expression, type_: str) -> Expression:
    """The expression where it is read as a type: what does not fit is NULL, so that is a function of it."""
    if type_ == "any" or family(type_) == family(expression.type):
        return expression
    return Operation(READ_AS, (expression, Constant(type_, "string")), type_)
