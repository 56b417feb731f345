"""Graphs of elements: what agents make of good ones, and the line that each bad one is refused with."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

import query
from agent.runtime.keyed.graph import CheckedGraph, EventRoute


def plan(text: str) -> dict[str, Any]:
    catalog = {"quotes": query.Schema({"text": "string", "n": "integer"}, open=False)}
    return query.analyze(query.parse(text), catalog).to_wire()


QUOTE = {"type": "Quote", "query": "SELECT text FROM quotes", "plan": plan("SELECT text FROM quotes")}
WORD = {"name": "Word", "fields": [["word", "string"], ["n", "integer"]]}
UPDATED = {"name": "Updated", "fields": [["sort", "integer"], ["word", "string"], ["n", "integer"]]}
SORT = {"name": "Sort", "fields": [["sort", "integer"], ["word", "string"], ["n", "integer"]]}
MERGE = {"name": "Merge", "fields": [["word", "string"], ["n", "integer"]]}


def element(name: str, kind: str = "code", **changes: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "inputs": [{"type": "Word", "key": ["word"]}], **changes}


def top_words() -> dict[str, Any]:
    graph = {
        "sources": [QUOTE],
        "types": [{"name": "Quote"}, WORD, UPDATED, SORT, MERGE],
        "elements": [
            element("Split", inputs=[{"type": "Quote", "key": None}], options={"emits": ["Word"]}),
            element("Count", options={"emits": ["Updated"]}),
            element("Sort", "top", inputs=[{"type": "Updated", "key": ["sort"]}], output="Sort", every_s=1.0),
            element("Merge", "top", inputs=[{"type": "Sort", "key": [], "constant": 1234}], output="Merge"),
        ],
    }
    return deepcopy(graph)


def test_types_follow_those_that_they_come_from_and_sources_have_the_fields_of_their_plans():
    graph = CheckedGraph.of(top_words())
    assert graph.types["Quote"].fields == [("text", "string")]
    assert graph.order == ("Quote", "Word", "Updated", "Sort", "Merge")
    assert graph.cycle == () == tuple(graph.cyclic_types)
    assert graph.routes_of("Sort") == (EventRoute("Sort", (), 1234),)
    assert [one.name for one in graph.keyless_of("Quote")] == ["Split"]
    assert [one.name for one in graph.emitters("Word")] == ["Split"]


def test_elements_that_read_a_type_by_one_key_share_its_route():
    data = top_words()
    data["elements"].append(element("Longest"))
    graph = CheckedGraph.of(data)
    (route,) = graph.routes_of("Word")
    assert [one.name for one in graph.consumers(route)] == ["Count", "Longest"]


def test_elements_that_read_a_type_by_one_key_in_other_groupings_share_no_route():
    data = top_words()
    out = {"name": "Here", "fields": [["n", "integer"]]}
    data["types"] += [out, {**out, "name": "There"}, {**out, "name": "Anywhere"}]
    data["elements"] += [
        element("One", "exchange", output="Here", grouping="fish", workers=32),
        element("Two", "exchange", output="There", grouping="fish", workers=33),
        element("Three", "exchange", output="Anywhere", grouping="fish", workers=32),
    ]
    graph = CheckedGraph.of(data)
    plain, first, second = graph.routes_of("Word")
    assert (plain.grouping, plain.workers) == ("", 0)
    assert [one.name for one in graph.consumers(first)] == ["One", "Three"]
    assert first.text == "Word by word over 32 workers by fish"
    assert second == EventRoute("Word", ("word",), None, "fish", 33)


@pytest.mark.parametrize("grouping", ["fields", "split"])
def test_keys_of_code_that_cannot_be_split_have_the_grouping_fields(grouping):
    """Of code that says that its states can be combined, any."""
    data = top_words()
    data["elements"][1] |= {"grouping": "fields", "workers": 8}
    if grouping == "split":
        data["elements"][1] |= {"grouping": "fish", "options": {"emits": ["Updated"], "splits": True}}
    (route,) = CheckedGraph.of(data).routes_of(data["elements"][1]["inputs"][0]["type"])
    assert route.workers == 8


def test_a_circle_of_events_is_named_by_its_path():
    data = top_words()
    data["elements"][1]["options"] = {"emits": ["Updated", "Word"]}
    graph = CheckedGraph.of(data)
    assert set(graph.cycle) == {"Word", "element Count"}
    assert graph.cycle[0] == graph.cycle[-1]
    assert graph.cyclic_types == {"Word"}
    assert graph.order == ("Quote", "Updated", "Sort", "Merge", "Word")


def _changed(path: str, value: Any) -> dict[str, Any]:
    data = top_words()
    *parts, last = path.split(".")
    at: Any = data
    for part in parts:
        at = at[int(part)] if part.isdigit() else at[part]
    at[int(last) if last.isdigit() else last] = value
    return data


def _grouped(place: int, grouping: str) -> dict[str, Any]:
    data = top_words()
    data["elements"][place] |= {"grouping": grouping, "workers": 3}
    return data


def _merged(kind: str = "top", **changes: Any) -> dict[str, Any]:
    inputs = [{"type": "Sort", "key": [], "constant": 1234}]
    return element("Merge", kind, **({"inputs": inputs, "output": "Merge", "every_s": 1.0} | changes))


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (None, "not the elements of a job"),
        ({"sources": [], "types": [], "elements": []}, "at least one"),
        (_changed("elements.1.kind", "magic"), "not the elements of a job"),
        (_changed("elements", [element(f"E{n}") for n in range(65)]), "not the elements of a job"),
        (_changed("elements.1.inputs", [{"type": "Letter", "key": ["word"]}]), "Letter, which is no type"),
        (_changed("elements.1.inputs", [{"type": "Word", "key": ["letter"]}]), "Word has no field 'letter'; it has n"),
        (_changed("elements.1.inputs", [{"type": "Word", "key": []}]), "fields or a constant"),
        (_changed("elements.1.inputs", [{"type": "Word", "key": ["word"]}] * 2), "reads a type twice"),
        (
            _changed("elements.1.inputs", [{"type": "Word", "key": ["word"]}, {"type": "Sort", "key": ["n"]}]),
            "different types of values",
        ),
        (
            _changed("elements.1.inputs", [{"type": "Word", "key": ["word"]}, {"type": "Sort", "key": ["word", "n"]}]),
            "different numbers of fields",
        ),
        (_changed("elements.1.name", "Split"), "two elements have the name Split"),
        (_changed("elements.1.options", {"emits": ["Letter"]}), "emits Letter, which is no type"),
        (_changed("elements.2.output", "Quote"), "brought by a source"),
        (_changed("elements.2.output", "Letter"), "no type of the job"),
        (_changed("elements.2.output", "Merge"), "two outputs have the name Merge"),
        (_changed("elements.0.ttl_s", 5.0), "without a key"),
        (_changed("types.1.fields", [["word", "string"], ["word", "integer"]]), "two fields"),
        (_changed("types.1.fields", [["@time", "string"]]), "no name of a field"),
        (_changed("types.1.shed", "word"), "guaranteed=False"),
        (_changed("types.1", {**WORD, "shed": "word", "guaranteed": False}), "shed where they come in"),
        (_changed("types.1", {**WORD, "guaranteed": False}), "Updated, which it emits, cannot be"),
        (_changed("sources.0.plan", {}), "source Quote: "),
        (_changed("sources.0.plan", plan("SELECT COUNT(*) FROM quotes")), "no groups, windows or order"),
        (_changed("sources.0.plan", plan("SELECT text FROM quotes ORDER BY n")), "no groups, windows or order"),
        (_changed("sources.0.plan", plan("SELECT text FROM app('other')")), "logs alone"),
        (_changed("types.0", {"name": "Quote", "fields": [["line", "string"]]}), "not the columns of its plan"),
        (_changed("sources.0.type", "Line"), "no type of the job"),
        (_changed("elements.1.grouping", "fields"), "element Count: a grouping is over workers"),
        (_changed("elements.1.workers", 3), "element Count: a grouping is over workers"),
        (_changed("elements.1.workers", 1025), "not the elements of a job"),
        (_changed("elements.1.grouping", "hashed"), "not the elements of a job"),
        (
            _changed("elements.1", element("Count", options={"emits": ["Updated"]}, grouping="fish", workers=3)),
            "element Count: its keys cannot be split, since its state of a key is in one place: its grouping is fields",
        ),
        (_grouped(2, "fields"), "all of its events are: it has none of the groupings"),
        (
            _grouped(2, "pkg"),
            "its keys cannot be split, since the greatest of a key are known where all of its events are",
        ),
        (_changed("elements.3", _merged(grouping="fields", workers=3)), "by the fields of a key"),
        (_changed("elements.3", _merged(kind="exchange", every_s=None)), "by the fields of a key"),
    ],
)
def test_a_bad_graph_is_refused_with_a_line_that_says_what_is_wrong(data, line):
    with pytest.raises(query.PlanError) as error:
        CheckedGraph.of(data)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_an_element_reads_types_of_one_guarantee_alone():
    data = top_words()
    data["types"].append({"name": "Seen", "fields": [["word", "string"]], "guaranteed": False})
    data["elements"][1]["inputs"].append({"type": "Seen", "key": ["word"]})
    with pytest.raises(query.PlanError, match="reads Word, which is guaranteed, and Seen, which is not"):
        CheckedGraph.of(data)
