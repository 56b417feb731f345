"""Resolves names to columns of a query's sources: a stream or another job's results, and the source it joins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from query.model.errors import QueryError, listed, nearest
from query.model.limits import COLUMNS_MAX
from query.model.streams import is_pattern, patterns, selects
from query.model.types import RESERVED_COLUMNS, WINDOW_BOUNDS, Schema
from query.plan.plan import PlanColumn
from query.syntax import ast
from query.syntax.printer import format_name, format_source, format_streams

if TYPE_CHECKING:
    from collections.abc import Mapping

_RESULTS = Schema(dict.fromkeys(WINDOW_BOUNDS, "timestamp"), open=True)
"""The known columns of any job's results: the bounds of each row's window."""
_ROWS = Schema({}, open=True)
"""The known columns of any table's rows: none."""


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A source of a query. `name` is its name in a plan, `shown` its name for people; `qualifier` addresses its
    columns. `is_joined_stream`: its events are joined with those of FROM's stream, neither side comes first."""

    name: str
    shown: str
    qualifier: str | None
    schema: Schema
    is_joined_stream: bool = False

    def has(self, node: ast.ColumnRef) -> bool:
        """Whether this column is known; `*` among the known columns means that the columns are unknown."""
        columns = self.schema.columns
        return node.parts[0] in columns or ".".join(node.parts) in columns or "*" in columns


@dataclass(frozen=True, slots=True)
class Known:
    """The known schemas of streams' events and of look-up tables' rows, by name."""

    streams: Mapping[str, Schema]
    tables: Mapping[str, Schema]


def sources_of(query: ast.Query, known: Known) -> tuple[QuerySource, ...]:
    """The source in FROM and the joined source, if any; raises QueryError if there is no such stream."""
    first = _app(query.source) if isinstance(query.source, ast.App) else _stream(query, known.streams)
    return (first,) if query.join is None else (first, joined_source(query, first, known))


def joined_source(query: ast.Query, first: QuerySource, known: Known) -> QuerySource:
    """The joined source; raises QueryError if it has the name of FROM's source, or is a stream that is not there."""
    assert query.join is not None
    table = query.join.source
    match table:
        case ast.App():
            joined = _app(table)
        case ast.TableRef():
            joined = _table(table, known)
        case ast.Stream():
            joined = _joined_stream(query, table, known)
    if joined.qualifier == first.qualifier:
        hint = f"give one another name with AS, as in {format_source(replace(table, alias='other'))}"
        message = f"both sides of JOIN are called {format_name(joined.qualifier or '')}"
        raise QueryError(message, query.text, table.span, hint=hint)
    return joined


def _app(app: ast.App) -> QuerySource:
    return QuerySource(app.name, format_source(ast.App(app.name)), app.qualifier, _RESULTS)


def _table(table: ast.TableRef, known: Known) -> QuerySource:
    schema = known.tables.get(table.name, _ROWS)
    return QuerySource(table.name, format_source(ast.TableRef(table.name)), table.qualifier, schema)


def _joined_stream(query: ast.Query, stream: ast.Stream, known: Known) -> QuerySource:
    source = query.source
    if isinstance(source, ast.App) or (isinstance(source, ast.Subquery) and len(source.branches) > 1):
        what = "results of another job" if isinstance(source, ast.App) else "events of UNION ALL"
        hint = "FROM names a stream, or several as one, where a stream is joined"
        raise QueryError(f"{what} are not joined with a stream", query.text, stream.span, hint=hint)
    for one in (source, stream):
        if isinstance(one, ast.Stream) and one.alias is None and is_pattern(one.name):
            hint = f"as in {format_source(replace(one, alias='other'))}"
            message = "several streams that are joined need one name for all, given with AS"
            raise QueryError(message, query.text, one.span, hint=hint)
    name, schema = _selected(stream, query.text, known.streams)
    return QuerySource(name, format_streams(name), stream.qualifier, schema, is_joined_stream=True)


def _stream(query: ast.Query, catalog: Mapping[str, Schema]) -> QuerySource:
    name, schema = stream_schema(query, catalog)
    shown = "any stream" if name == "*" else format_streams(name)
    qualifier = None
    if isinstance(query.source, ast.Stream):
        # Without a JOIN names need no qualifier: `web.hits` is the field hits of a column web.
        is_one = query.join is not None and not is_pattern(name)
        qualifier = query.source.alias or (name if is_one else None)
    return QuerySource(name, shown, qualifier, schema)


def stream_schema(query: ast.Query, catalog: Mapping[str, Schema]) -> tuple[str, Schema]:
    """The streams that a query reads and the schema of their events; raises QueryError if there is no such stream."""
    if query.source is None:
        if len(catalog) == 1:
            return next(iter(catalog.items()))
        raise _stream_left_out(query, catalog)
    assert not isinstance(query.source, ast.Subquery)
    return _selected(query.source, query.text, catalog)


def _selected(source: ast.Stream | ast.App, text: str, catalog: Mapping[str, Schema]) -> tuple[str, Schema]:
    name, span = source.name, source.span
    if name in catalog:
        return name, catalog[name]
    if not catalog:
        raise QueryError("there is no stream to read", text, span)
    found: dict[str, Schema] = {}
    for pattern in patterns(name):
        selected = {stream: schema for stream, schema in catalog.items() if selects(pattern, stream)}
        if not selected:
            guess = None if is_pattern(pattern) else nearest(pattern, catalog)
            hint = f"did you mean {guess}?" if guess else f"the streams are {listed(sorted(catalog))}"
            raise QueryError(f"there is no stream {format_name(pattern)}", text, span, hint=hint)
        found |= selected
    return name, _merged(list(found.values()))


def _stream_left_out(query: ast.Query, catalog: Mapping[str, Schema]) -> QueryError:
    if not catalog:
        return QueryError("there is no stream to read", query.text)
    streams = listed([f"FROM {format_name(name)}" for name in sorted(catalog)], "or")
    span = query.select[-1].span
    return QueryError("the query does not say what it reads", query.text, span, hint=f"add FROM *, {streams}")


def _merged(schemas: list[Schema]) -> Schema:
    """The schema of events of any of these streams: a type that all agree on, otherwise one that use decides."""
    names = dict.fromkeys(name for schema in schemas for name in schema.columns)
    columns = {}
    for name in names:
        types = {schema.columns[name] for schema in schemas if name in schema.columns}
        columns[name] = types.pop() if len(types) == 1 else "any"
    return Schema(columns, any(schema.open for schema in schemas))


class Scope:
    """The columns a query uses, under names that are unique in its plan. `sources`: FROM's source, then JOIN's."""

    def __init__(self, sources: tuple[QuerySource, ...], text: str, *, windowed: bool) -> None:
        self._sources = sources
        self._text = text
        self._windowed = windowed
        self._by_path: dict[tuple[int, tuple[str, ...]], PlanColumn] = {}
        self._by_name: dict[str, PlanColumn] = {}

    def resolve(self, node: ast.ColumnRef) -> PlanColumn:
        """The column a name stands for, with its declared type ("any" or "text" where its use decides)."""
        if self.is_window_bound(node):
            return PlanColumn(node.parts[0], node.parts, "timestamp")
        side, parts = self._side(node)
        path = _path(self._sources[side].schema, parts)
        if (side, path) not in self._by_path:
            self._add(side, path, node)
        return self._by_path[side, path]

    def is_window_bound(self, node: ast.ColumnRef) -> bool:
        """Whether this is window_start or window_end of a query with WINDOWING."""
        return self._windowed and len(node.parts) == 1 and node.parts[0] in WINDOW_BOUNDS

    def is_joined(self, node: ast.ColumnRef) -> bool:
        """Whether this is a column of the joined app."""
        return self._side(node)[0] == 1

    def without_qualifier(self, node: ast.ColumnRef) -> tuple[str, ...]:
        """The parts of a column's name after the qualifier."""
        return node.parts if self.is_window_bound(node) else self._side(node)[1]

    def declared_type(self, name: str) -> str:
        """The type of a resolved column before its use."""
        return self._by_name[name].type

    def used(self, *, joined: bool) -> list[PlanColumn]:
        """Every resolved column of the joined app, or of FROM's source, in the order of first use."""
        return [column for (side, _), column in self._by_path.items() if side == joined]

    def every_name(self) -> list[str] | None:
        """The columns `SELECT *` stands for, without the fields seen inside them. None for an app, whose columns are
        unknown."""
        first, *joined = self._sources
        if joined or first.schema is _RESULTS:
            return None
        columns = first.schema.columns
        return [name for name in columns if not (first.schema.open and _is_inside(name, columns))]

    def _side(self, node: ast.ColumnRef) -> tuple[int, tuple[str, ...]]:
        """The source of a column, by its place in `sources`, and the column's name there."""
        for side, source in enumerate(self._sources):
            if len(node.parts) > 1 and node.parts[0] == source.qualifier:
                return side, node.parts[1:]
        first, *joined = self._sources
        if not joined:
            return 0, node.parts
        if joined[0].is_joined_stream and not all("*" in source.schema.columns for source in self._sources):
            has = [source.has(node) for source in self._sources]
            sides = has if any(has) else [source.schema.open for source in self._sources]
            if not all(sides):
                return int(sides[1]), node.parts
        elif first.has(node):
            return 0, node.parts
        elif not first.schema.open:
            return 1, node.parts
        shown = ".".join(map(format_name, node.parts))
        hint = f"say whose it is, as in {format_name(joined[0].qualifier or '')}.{shown}"
        message = f"{shown} may be a column of {first.shown} or of {joined[0].shown}"
        raise QueryError(message, self._text, node.span, hint=hint)

    def _add(self, side: int, path: tuple[str, ...], node: ast.ColumnRef) -> None:
        if len(self._by_path) >= COLUMNS_MAX:
            message = f"the query uses more than {COLUMNS_MAX:,} columns"
            raise QueryError(message, self._text, node.span)
        source = self._sources[side]
        is_qualified = side or self._sources[-1].is_joined_stream
        named = (source.qualifier or source.name, *path) if is_qualified else path
        column = PlanColumn(self._free_name(named), path, self._type(source, path, node))
        self._by_path[side, path] = self._by_name[column.name] = column

    def _free_name(self, path: tuple[str, ...]) -> str:
        name = ".".join(path)
        is_bound = self._windowed and name in WINDOW_BOUNDS
        if is_bound or name in RESERVED_COLUMNS or name in self._by_name:
            name = ".".join('"' + part.replace('"', '""') + '"' for part in path)
        while name in self._by_name:
            name += "'"
        return name

    def _type(self, source: QuerySource, path: tuple[str, ...], node: ast.ColumnRef) -> str:
        columns = source.schema.columns
        declared = columns.get(path[0])
        if len(path) == 1 and declared is not None:
            return declared
        if path[0] in WINDOW_BOUNDS and len(path) == 1:
            hint = "add it, as in WINDOWING 1 MINUTE"
            raise QueryError(f"{path[0]} needs WINDOWING", self._text, node.span, hint=hint)
        if source.schema.open:
            return "any"
        shown = ".".join(map(format_name, path))
        if declared is not None:
            message = f"{format_name(path[0])} has no fields: there is no {shown}"
            raise QueryError(message, self._text, node.span)
        guess = nearest(".".join(path), columns)
        names = [format_name(name) for name in columns]
        known = f"the columns are {listed(names)}" if names else "it has no columns"
        hint = f"did you mean {format_name(guess)}?" if guess else known
        raise QueryError(f"there is no column {shown} in {source.shown}", self._text, node.span, hint=hint)


def _path(schema: Schema, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The path to a field; a CSV header may hold the dots itself."""
    joined = ".".join(parts)
    if schema.open or joined not in schema.columns:
        return parts
    return (joined,)


def _is_inside(name: str, columns: Mapping[str, str]) -> bool:
    return any(character == "." and name[:place] in columns for place, character in enumerate(name))
