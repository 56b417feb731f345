"""Names of a query to columns of its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.errors import QueryError, listed, nearest
from query.limits import COLUMNS_MAX
from query.plan import Column
from query.printer import format_name
from query.types import RESERVED_COLUMNS, WINDOW_BOUNDS, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from query import ast


def stream_schema(query: ast.Query, catalog: Mapping[str, Schema]) -> tuple[str, Schema]:
    """The stream a query reads and what its events hold; raises QueryError if it names none there is."""
    if query.stream is None:
        if len(catalog) == 1:
            return next(iter(catalog.items()))
        raise _stream_left_out(query, catalog)
    name, span = query.stream.name, query.stream.span
    if name in catalog:
        return name, catalog[name]
    if name == "*" and catalog:
        return name, _merged(list(catalog.values()))
    if not catalog:
        raise QueryError("there is no stream to read", query.text, span)
    guess = nearest(name, catalog)
    hint = f"did you mean {guess}?" if guess else f"the streams are {listed(sorted(catalog))}"
    raise QueryError(f"there is no stream {format_name(name)}", query.text, span, hint=hint)


def _stream_left_out(query: ast.Query, catalog: Mapping[str, Schema]) -> QueryError:
    if not catalog:
        return QueryError("there is no stream to read", query.text)
    streams = listed([f"FROM {format_name(name)}" for name in sorted(catalog)], "or")
    span = query.select[-1].span
    return QueryError("the query does not say what it reads", query.text, span, hint=f"add FROM *, {streams}")


def _merged(schemas: list[Schema]) -> Schema:
    """What events of any of these streams hold: a type all agree on, otherwise one that use decides."""
    names = dict.fromkeys(name for schema in schemas for name in schema.columns)
    columns = {}
    for name in names:
        types = {schema.columns[name] for schema in schemas if name in schema.columns}
        columns[name] = types.pop() if len(types) == 1 else "any"
    return Schema(columns, any(schema.open for schema in schemas))


class Scope:
    """The columns a query uses, under names that are unique in its plan."""

    def __init__(self, stream: str, schema: Schema, text: str, *, windowed: bool) -> None:
        self._stream = stream
        self._schema = schema
        self._text = text
        self._windowed = windowed
        self._by_path: dict[tuple[str, ...], Column] = {}
        self._by_name: dict[str, Column] = {}

    def resolve(self, node: ast.Column) -> Column:
        """The column a name stands for, with its declared type ("any" or "text" where its use decides)."""
        if self.is_window_bound(node):
            return Column(node.parts[0], node.parts, "timestamp")
        path = self._path(node)
        if path not in self._by_path:
            self._add(path, node)
        return self._by_path[path]

    def is_window_bound(self, node: ast.Column) -> bool:
        """Whether this is window_start or window_end of a query with WINDOWING."""
        return self._windowed and len(node.parts) == 1 and node.parts[0] in WINDOW_BOUNDS

    def declared_type(self, name: str) -> str:
        """The type of a resolved column before its use."""
        return self._by_name[name].type

    def used(self) -> list[Column]:
        """Every resolved column, as first used."""
        return list(self._by_name.values())

    def every_name(self) -> list[str]:
        """The columns `SELECT *` stands for: not also the fields seen inside them."""
        columns = self._schema.columns
        return [name for name in columns if not (self._schema.open and _is_inside(name, columns))]

    def _path(self, node: ast.Column) -> tuple[str, ...]:
        """The path to a field; a CSV header may hold the dots itself."""
        joined = ".".join(node.parts)
        if self._schema.open or joined not in self._schema.columns:
            return node.parts
        return (joined,)

    def _add(self, path: tuple[str, ...], node: ast.Column) -> None:
        if len(self._by_path) >= COLUMNS_MAX:
            message = f"the query uses more than {COLUMNS_MAX:,} columns"
            raise QueryError(message, self._text, node.span)
        column = Column(self._free_name(path), path, self._type(path, node))
        self._by_path[path] = self._by_name[column.name] = column

    def _free_name(self, path: tuple[str, ...]) -> str:
        name = ".".join(path)
        if name in RESERVED_COLUMNS or name in self._by_name:
            return ".".join('"' + part.replace('"', '""') + '"' for part in path)
        return name

    def _type(self, path: tuple[str, ...], node: ast.Column) -> str:
        declared = self._schema.columns.get(path[0])
        if len(path) == 1 and declared is not None:
            return declared
        if path[0] in WINDOW_BOUNDS and len(path) == 1:
            hint = "add it, as in WINDOWING 1 MINUTE"
            raise QueryError(f"{path[0]} needs WINDOWING", self._text, node.span, hint=hint)
        if self._schema.open:
            return "any"
        shown = ".".join(map(format_name, node.parts))
        if declared is not None:
            message = f"{format_name(path[0])} has no fields: there is no {shown}"
            raise QueryError(message, self._text, node.span)
        guess = nearest(".".join(path), self._schema.columns)
        hint = f"did you mean {format_name(guess)}?" if guess else self._columns_hint()
        raise QueryError(f"there is no column {shown} in {self._where()}", self._text, node.span, hint=hint)

    def _columns_hint(self) -> str:
        names = [format_name(name) for name in self._schema.columns]
        return f"the columns are {listed(names)}" if names else "it has no columns"

    def _where(self) -> str:
        return "any stream" if self._stream == "*" else format_name(self._stream)


def _is_inside(name: str, columns: Mapping[str, str]) -> bool:
    return any(character == "." and name[:place] in columns for place, character in enumerate(name))
