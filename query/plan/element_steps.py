"""The steps of keyed elements in words, for EXPLAIN: what sources bring, and which events are shuffled by which key.

Elements are plain data here, in the shape that `agent.programs.element_graph` reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from query.model.timestamps import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHUFFLED = "shuffled over 1,024 logical nodes to the agents that host them"


def element_steps(elements: Mapping[str, Any]) -> Iterator[str]:
    """The steps of sources and elements, in their order.

    >>> key = [{"type": "Word", "key": ["word"]}]
    >>> list(element_steps({"sources": [], "elements": [{"name": "Count", "kind": "code", "inputs": key}]}))
    ['Count of Word by word: shuffled over 1,024 logical nodes to the agents that host them']
    """
    yield from (f"bring {source['type']}: {source['query']}" for source in elements["sources"])
    for element in elements["elements"]:
        is_pairs = element["kind"] == "join" and element["options"].get("mode") == "all"
        if element["kind"] == "exchange":
            yield _exchange_step(element)
        else:
            yield _join_step(element) if is_pairs else _element_step(element)


def _join_step(element: Mapping[str, Any]) -> str:
    options = element["options"]
    pairs = [one if one == other else f"{one} = {other}" for one, other in options["on"]]
    without = f"have NULL for those of {options['right']}" if options["outer"] else "are dropped"
    return (
        f"join by ({', '.join(pairs)}) within {duration(options['within_ms'])}: {SHUFFLED}; "
        f"events of {options['left']} without a match {without}"
    )


def _exchange_step(element: Mapping[str, Any]) -> str:
    (read,) = element["inputs"]
    workers, grouping = element.get("workers", 0), element.get("grouping", "")
    over = f"one of {workers:,} workers, which are logical nodes, by {grouping}"
    where = over if workers else "the logical node of its key"
    return f"exchange {read['type']} by {', '.join(read['key'])}: each event goes to {where}"


def _element_step(element: Mapping[str, Any]) -> str:
    name = element["name"] if element["kind"] == "code" else f"{element['name']} ({element['kind']})"
    keyless = [read["type"] for read in element["inputs"] if read["key"] is None]
    if keyless:
        return f"{name} of {' and '.join(keyless)}: beside every agent, where these events are"
    if all(not read["key"] for read in element["inputs"]):
        types = " and ".join(read["type"] for read in element["inputs"])
        return f"{name} of {types}: all of them to the one agent that hosts it"
    keys = " and ".join(f"{read['type']} by {', '.join(read['key'])}" for read in element["inputs"])
    return f"{name} of {keys}: {SHUFFLED}"
