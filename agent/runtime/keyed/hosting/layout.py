"""The columns of each event type, its routes, and the logical nodes of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from agent.programs.element_graph import Element
from agent.runtime.keyed.elements.declared import lag_ms
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME, SEQ, SOURCE
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.hosting.options import Ints
from agent.runtime.keyed.logical_nodes import node_numbers, nodes_of

WORKER = "@worker"
"""Beginning of the names of the columns that hold the workers of rows on split routes, before the route's place."""
ROUTES = "@routes"
"""The column of rows of a type with several routes that says which of them each row takes here, as bits."""
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class RouteLayout:
    """One key of a type. `index`: its place among all routes; `takes_null`: rows with a NULL in the key are sent.

    `grouping`: chooses one of so many `workers`, the first logical nodes, for each row, whose place is in the column
    `worker`; "" where the key alone says which of all nodes it is.
    """

    index: int
    fields: list[str]
    constant: int | None
    takes_null: bool
    consumers: tuple[int, ...]
    grouping: str = ""
    workers: int = 0
    worker: str = ""


@dataclass(frozen=True, slots=True)
class TypeLayout:
    """One event type. `schema`: of its rows as they travel; `keyless`: the elements that take it beside the agent;
    `split`: the routes on which rows of one key go to several workers."""

    place: int
    name: str
    guaranteed: bool
    shed: str
    schema: pl.Schema
    routes: tuple[RouteLayout, ...]
    keyless: tuple[int, ...]
    split: tuple[RouteLayout, ...] = ()

    def has_workers(self, rows: pl.DataFrame) -> bool:
        """Whether the workers of rows have been chosen, if any are to be."""
        return all(route.worker in rows.columns for route in self.split)

    def without_workers(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows as elements see them."""
        return rows.drop([route.worker for route in self.split], strict=False) if self.split else rows

    def plain(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that an element has emitted, in the columns of their type, with their workers if these are chosen."""
        left_out = {ROUTES} if self.has_workers(rows) else {ROUTES, *(route.worker for route in self.split)}
        wanted = {name: dtype for name, dtype in self.schema.items() if name not in left_out}
        if rows.columns == [*wanted] and rows.dtypes == [*wanted.values()]:
            return rows
        return pl.DataFrame([rows[name].cast(dtype) for name, dtype in wanted.items()])

    def is_sound(self, rows: pl.DataFrame) -> bool:
        """Whether rows of a peer have all that is needed to place them."""
        if any(rows[name].null_count() for name in (EVENT_TIME, SOURCE, SEQ)):
            return False
        workers = [(rows[route.worker], route.workers) for route in self.split]
        return not any(one.null_count() or ((one < 0) | (one >= count)).any() for one, count in workers)

    def numbered(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows in the columns that travel."""
        if len(self.routes) > 1 and ROUTES not in rows.columns:
            rows = rows.with_columns(pl.lit((1 << len(self.routes)) - 1, pl.Int64).alias(ROUTES))
        if rows.columns == self.schema.names() and rows.dtypes == self.schema.dtypes():
            return rows
        return pl.DataFrame([rows[name].cast(dtype) for name, dtype in self.schema.items()])

    def nodes(self, rows: pl.DataFrame) -> Ints:
        """The node of each row on each route, -1 where it takes none: routes × rows."""
        found = np.empty((len(self.routes), rows.height), np.int16)
        bits = rows[ROUTES].to_numpy() if len(self.routes) > 1 else None
        for place, route in enumerate(self.routes):
            found[place] = self._nodes(route, rows)
            if bits is not None:
                found[place][(bits >> place) & 1 == 0] = NOWHERE
        return found

    def _nodes(self, route: RouteLayout, rows: pl.DataFrame) -> Ints | int:
        if route.constant is not None:
            return route.constant
        key = rows[route.fields]
        nodes = rows[route.worker].to_numpy().astype(np.int16) if route.grouping else node_numbers(key).view(np.int16)
        if not route.takes_null and any(column.null_count() for column in key):
            nodes[np.logical_or.reduce([column.is_null().to_numpy() for column in key])] = NOWHERE
        return nodes


class GraphLayout:
    """The graph of a job, taken apart into places: of types, elements and routes."""

    def __init__(self, graph: CheckedGraph) -> None:
        self.graph = graph
        self.elements: tuple[Element, ...] = tuple(graph.graph.elements)
        self.routes = graph.routes
        self.types = tuple(self._type(place, name) for place, name in enumerate(graph.types))
        self.by_name = {one.name: one for one in self.types}
        self.sources = tuple(source.type for source in graph.sources)

    def _type(self, place: int, name: str) -> TypeLayout:
        graph, type_ = self.graph, self.graph.types[name]
        routes = tuple(self._route(route) for route in graph.routes_of(name))
        columns = {EVENT_TIME: pl.Int64(), SOURCE: pl.Int64(), SEQ: pl.Int64()}
        if len(routes) > 1:
            columns[ROUTES] = pl.Int64()
        split = tuple(route for route in routes if route.grouping)
        columns |= {route.worker: pl.Int64() for route in split}
        schema = pl.Schema(columns | {field: DTYPES[kind] for field, kind in type_.fields})
        keyless = tuple(graph.index(one.name) for one in graph.keyless_of(name))
        return TypeLayout(place, name, type_.guaranteed, type_.shed, schema, routes, keyless, split)

    def _route(self, route: object) -> RouteLayout:
        index = self.routes.index(route)
        found = self.routes[index]
        consumers = self.graph.consumers(found)
        constant = None if found.constant is None else int(nodes_of([pl.Series([found.constant])])[0])
        takes_null = any(
            one.kind == "exchange" or (one.options.get("outer") and one.options.get("left") == found.type)
            for one in consumers
        )
        places = tuple(self.graph.index(one.name) for one in consumers)
        worker = f"{WORKER}{index}" if found.grouping else ""
        return RouteLayout(index, list(found.key), constant, takes_null, places, found.grouping, found.workers, worker)

    def key_kinds(self, route: RouteLayout) -> dict[str, str]:
        """The fields of a route's key with their types."""
        kinds = dict(self.graph.types[self.routes[route.index].type].fields)
        return {name: kinds[name] for name in route.fields}

    @cached_property
    def keyed(self) -> tuple[int, ...]:
        """The places of the elements that have keys."""
        return tuple(place for place, one in enumerate(self.elements) if one.inputs[0].key is not None)

    @cached_property
    def guaranteed(self) -> frozenset[int]:
        """The places of the elements that process each event exactly once, among those with keys."""
        return frozenset(place for place in self.keyed if self.graph.is_guaranteed(self.elements[place]))

    def inputs(self, element: int) -> tuple[str, ...]:
        """The types that an element takes."""
        return tuple(one.type for one in self.elements[element].inputs)

    def held_ms(self, element: int) -> int:
        """The time by which an element may emit events before the watermark of its inputs."""
        return lag_ms(self.elements[element])


def groups_by_host(nodes: Ints, host_of: Ints) -> tuple[Ints, Ints | None, list[tuple[int, int, int]]]:
    """The places of rows in the order of their hosts, else in their own; the bits of the routes on which each goes
    there (None for one route); and of each host where its places begin and end. A host is -1 where it is not known.
    Rows without a node go nowhere."""
    routes, rows = nodes.shape
    if routes == 1:
        hosts = np.where(nodes[0] != NOWHERE, host_of[nodes[0]], np.int16(-2))
        order = np.argsort(hosts, kind="stable")  # of 16 bits, by their digits
        return order, None, [one for one in _stretches(hosts[order]) if one[0] != -2]
    route, row = np.nonzero(nodes != NOWHERE)
    key = (host_of[nodes[route, row]].astype(np.int64) + 1) * rows + row
    order = np.argsort(key, kind="stable")
    key, bits = key[order], (np.int64(1) << route[order])
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    bits, key = np.bitwise_or.reduceat(bits, firsts) if len(firsts) else bits, key[firsts]
    return key % max(rows, 1), bits, _stretches(key // max(rows, 1) - 1)


def _stretches(ordered: Ints) -> list[tuple[int, int, int]]:
    """Each value with where it begins and ends."""
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1)) if len(ordered) else ordered
    ends = [*begins[1:].tolist(), len(ordered)]
    return list(zip(ordered[begins].tolist(), begins.tolist(), ends, strict=False))
