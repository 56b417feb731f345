"""Graphs of elements for cores without agents: what submission makes of a job's file."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

import query
from agent.programs.element_graph import Element, ElementGraph, ElementInput, ElementSource, EventType
from agent.runtime.keyed.graph import CheckedGraph
from benchmarks.jobs.fleets import program
from elf.program.code import about, load_code

DECLARED, CODE = "declared", "code"
HIT, COUNTED, UPDATE = "Hit", "Counted", "Update"
PROGRAMS = Path(__file__).parent / "programs"
SERVE, CLICK, SEEN, RATE = "Serve", "Click", "Seen", "Rate"
WITHIN_MS = 1_800_000
RUNNING = "SELECT key, COUNT(*) AS n FROM Hit GROUP BY key"


def count_program() -> bytes:
    """The code of the job that counts hits by key in Python."""
    return program("count_keys", PROGRAMS, DECLARED=False)


def counting(kind: str, *, guaranteed: bool) -> CheckedGraph:
    """A count of hits by key, with a row for each, `declared` or in `code`."""
    if kind == CODE:
        elements = about(load_code(count_program()).kind).elements
        assert elements is not None
        types = [replace(one, guaranteed=guaranteed) for one in elements.types]
        return CheckedGraph.of(msgspec.to_builtins(replace(elements, types=types)))
    hit = EventType(HIT, [("key", "string")], guaranteed)
    counted = EventType(COUNTED, [("key", "string"), ("n", "integer")], guaranteed)
    options = {"value": "COUNT(*) AS n", "plan": plan_of(RUNNING, hit)}
    element = Element(COUNTED, "aggregate", [ElementInput(HIT, ["key"])], COUNTED, options=options)
    return checked([("SELECT key FROM hits", hit)], [hit, counted], [element])


def click_rates() -> CheckedGraph:
    """The click rate of each query and ad, told again for each serve (figure 5 of the paper, without its bots)."""
    serve = EventType(SERVE, [(name, "string") for name in ("serve", "query", "ad", "user")], False, "serve")
    click = EventType(CLICK, [(name, "string") for name in ("serve", "ad")], False, "serve")
    on = [ElementInput(SERVE, ["serve", "ad"]), ElementInput(CLICK, ["serve", "ad"])]
    options = {"left": SERVE, "right": CLICK, "on": ["serve", "ad"], "within_ms": WITHIN_MS, "flag": "clicked"}
    seen = EventType(SEEN, [*serve.fields, ("clicked", "integer")], False)
    rate = EventType(RATE, [("query", "string"), ("ad", "string"), ("serves", "integer"), ("ctr", "number")], False)
    text = f"SELECT query, ad, COUNT(*) AS serves, AVG(clicked) AS ctr FROM {SEEN} GROUP BY query, ad"
    aggregate = {"value": "COUNT(*) AS serves, AVG(clicked) AS ctr", "plan": plan_of(text, seen)}
    return checked(
        [("SELECT serve, query, ad, user FROM serves", serve), ("SELECT serve, ad FROM clicks", click)],
        [serve, click, seen, rate],
        [
            Element(SEEN, "join", on, SEEN, options=options),
            Element(RATE, "aggregate", [ElementInput(SEEN, ["query", "ad"])], RATE, options=aggregate),
        ],
    )


def checked(sources: list[tuple[str, EventType]], types: list[EventType], elements: list[Element]) -> CheckedGraph:
    """A graph whose sources bring these types by these queries over streams with their fields."""
    found = []
    for text, type_ in sources:
        parsed = query.parse(text)
        plan = query.analyze(parsed, {text.rpartition(" ")[2]: _schema(type_)})
        found.append(ElementSource(type_.name, text, plan.to_wire()))
    return CheckedGraph.of(msgspec.to_builtins(ElementGraph(found, types, elements)))


def plan_of(text: str, *types: EventType) -> dict[str, object]:
    """The plan of a query over types of events, on the wire."""
    return query.analyze(query.parse(text), {type_.name: _schema(type_) for type_ in types}).to_wire()


def _schema(type_: EventType) -> query.Schema:
    return query.Schema(dict(type_.fields), open=False)
