"""A job's program and the elements of its agent, in one process: what the pipe carries goes from one to the other."""

from __future__ import annotations

import textwrap
from collections import deque
from typing import Any

import polars as pl

from agent.programs import calls
from agent.programs.calls import ProgramPosition
from agent.programs.element_graph import ElementGraph, EventType, FieldType
from agent.runtime.keyed.elements.code import CodeRuntime
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME, NODE, SEQ, SOURCE, Emitted
from agent.runtime.keyed.logical_nodes import nodes_of
from elf.program.runner import Runner

PLACE = ProgramPosition(True, "", [], 0, 1)
HEAD = """
import elf
@elf.event
class Word:
    word: str
    n: int
@elf.event
class Sum:
    word: str
    n: int
"""
COUNT = (
    HEAD
    + """
class Count(elf.PE):
    keys = {Word: "word"}
    n: int = 0
    def process_event(self, event):
        self.n += event.n
        self.emit(Sum(event.word, self.n))
class Words(elf.Job):
    elements = [Count]
    query = "SELECT COUNT(*) AS n FROM Sum WINDOWING 1 SECOND"
"""
)


TAIL = "class Words(elf.Job):\n    elements = [One]\n    query = 'SELECT COUNT(*) AS n FROM Sum WINDOWING 1 SECOND'\n"


def one(body: str) -> str:
    """A job with one element by word; the lines of its class."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return f"{HEAD}\nclass One(elf.PE):\n    keys = {{Word: 'word'}}\n{lines}\n{TAIL}"


class ProgramFailedError(Exception):
    """The reason that the program has given."""


class Beside:
    """A program, and the runtimes of its elements. Nothing is answered before `settle`, or `step` for one call.

    `fields`: those of types that a source brings, which are known once its query has been planned.
    """

    def __init__(
        self, source: str, fields: dict[str, list[tuple[str, FieldType]]] | None = None, **options: Any
    ) -> None:
        self._said: list[bytes] = []
        self._calls: deque[calls.ProgramCall] = deque()
        self._runner = Runner(self)
        self.log: list[str] = []
        self._run(calls.LoadCode(PLACE, "words", "agent", "1", textwrap.dedent(source).encode()))
        (loaded,) = self._acts()
        assert isinstance(loaded, calls.CodeLoaded), loaded
        assert loaded.about.elements is not None
        self.graph: ElementGraph = loaded.about.elements
        self.types = {
            one.name: EventType(one.name, (fields or {}).get(one.name, one.fields), one.guaranteed)
            for one in self.graph.types
        }
        self.runtimes = {
            one.name: CodeRuntime(one, self.types, self._call, lambda: PLACE, number << 40, **options)
            for number, one in enumerate(self.graph.elements)
            if one.kind == "code"
        }

    # What the pipe does.

    def write(self, data: bytes) -> None:
        self._said.append(data)

    def read(self) -> bytes:
        raise EOFError

    def done(self) -> None:
        """Nobody counts."""

    def _call(self, call: calls.ProgramCall) -> bool:
        self._calls.append(call)
        return True

    def _run(self, call: calls.ProgramCall | calls.LoadCode) -> None:
        self._runner(calls.encode(call))

    def _acts(self) -> list[calls.FromProgram]:
        said, self._said = self._said, []
        return [calls.read_act(one) for one in said]

    def step(self) -> bool:
        """Has the program answer one call, if there is any."""
        if not self._calls:
            return False
        self._run(self._calls.popleft())
        for act in self._acts():
            match act:
                case calls.CallbackFailed(reason=reason):
                    raise ProgramFailedError(reason)
                case calls.WriteLog(text=text):
                    self.log.append(text)
                case calls.ElementsProcessed() | calls.StatesTaken():
                    assert sum(one.answered(act) for one in self.runtimes.values()) == 1
        return True

    def settle(self) -> None:
        while self.step():
            pass

    # What the agent does.

    def frame(self, type_: str, rows: list[tuple[Any, ...]], key: str | None = None, at: int = 0) -> pl.DataFrame:
        """Rows of a type: the time, then the fields. `at`: the number of the first in its channel."""
        fields = self.types[type_].fields
        columns = [[row[place] for row in rows] for place in range(len(fields) + 1)]
        made = pl.DataFrame(
            [
                pl.Series(EVENT_TIME, columns[0], pl.Int64),
                pl.Series(SOURCE, [-1] * len(rows), pl.Int64),
                pl.Series(SEQ, [at + number << 20 for number in range(len(rows))], pl.Int64),
                *(
                    pl.Series(name, values, DTYPES[kind])
                    for (name, kind), values in zip(fields, columns[1:], strict=True)
                ),
            ]
        )
        nodes = nodes_of([made[key]]) if key else pl.Series(NODE, [0] * len(rows), pl.UInt16)
        return made.with_columns(nodes.alias(NODE))

    def process(
        self, element: str, type_: str, rows: list[tuple[Any, ...]], key: str | None = None, at: int = 0
    ) -> list[Emitted]:
        """What comes of rows, at once."""
        emitted: list[Emitted] = []
        self.runtimes[element].process(type_, self.frame(type_, rows, key, at), emitted.extend)
        self.settle()
        return emitted

    def advance(self, element: str, watermark_ms: int) -> list[Emitted]:
        emitted: list[Emitted] = []
        self.runtimes[element].advance(watermark_ms, emitted.extend)
        self.settle()
        return emitted

    def changes(self, element: str) -> dict[str, pl.DataFrame]:
        tables: dict[str, pl.DataFrame] = {}
        self.runtimes[element].take_changes(tables.update)
        self.settle()
        return tables

    def states(self, element: str, nodes: list[int]) -> dict[str, pl.DataFrame]:
        tables: dict[str, pl.DataFrame] = {}
        self.runtimes[element].states(nodes, tables.update)
        self.settle()
        return tables


def rows_of(emitted: list[Emitted], type_: str) -> list[tuple[Any, ...]]:
    """The times and fields of the emitted events of a type."""
    return [
        row for one in emitted if one.type == type_ for row in one.rows.drop(NODE, SOURCE, SEQ, strict=False).rows()
    ]
