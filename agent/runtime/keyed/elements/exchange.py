"""Exchanges: what comes is emitted as another type, so that the query reads it where its worker is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import polars as pl

from agent.programs.element_graph import Element, EventType
from agent.runtime.keyed.elements.outputs import output_fields
from agent.runtime.keyed.elements.runtime import EVENT_TIME, NODE, Emitted, Tables


class ExchangeRuntime:
    """Has the interface of `ElementRuntime`, without any state."""

    elements = memory_bytes = 0

    def __init__(self, element: Element, types: Mapping[str, EventType]) -> None:
        self._output = element.output
        self._columns = [EVENT_TIME, NODE, *(name for name, _ in output_fields(element, types))]

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:  # noqa: ARG002
        done([Emitted(self._output, rows[:, self._columns])] if rows.height else [])

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:  # noqa: ARG002
        done([])

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        done({})

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:  # noqa: ARG002
        done({})

    def put(self, tables: Tables) -> None:
        """Takes nothing: there is no state."""

    def drop(self, nodes: Collection[int]) -> None:
        """Forgets nothing."""

    def evict(self, bytes_max: int, watermark_ms: int) -> int:  # noqa: ARG002
        return 0
