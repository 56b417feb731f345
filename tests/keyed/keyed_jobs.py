"""Graphs of elements and logs for tests of whole fleets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

import query
from agent import Submit
from agent.parsing import Parsed
from overlay import app_id

WORDS = query.Schema({"word": "string", "n": "integer"}, open=False)
COUNTED = "SELECT word, MAX(total) AS total FROM Counted GROUP BY word ORDER BY total DESC, word WINDOWING 1 SECOND"


def plan(text: str, **catalog: query.Schema) -> query.Plan:
    return query.analyze(query.parse(text), catalog)


def counting(**type_options: Any) -> dict[str, Any]:
    """Words of logs, and how often each has come, after each event."""
    counted = plan("SELECT word, SUM(n) AS total FROM Word GROUP BY word", Word=WORDS).to_wire()
    return {
        "sources": [
            {
                "type": "Word",
                "query": "SELECT word, n FROM words",
                "plan": plan("SELECT word, n FROM words", words=WORDS).to_wire(),
            }
        ],
        "types": [
            {"name": "Word", "fields": [["word", "string"], ["n", "integer"]], **type_options},
            {"name": "Counted", "fields": [["word", "string"], ["total", "integer"]], **type_options},
        ],
        "elements": [
            {
                "name": "Counts",
                "kind": "aggregate",
                "inputs": [{"type": "Word", "key": ["word"]}],
                "output": "Counted",
                "options": {"value": "SUM(n) AS total", "plan": counted},
            }
        ],
    }


def keyed_job(graph: Mapping[str, Any], text: str = COUNTED, name: str = "words", **options: Any) -> Submit:
    types = {one["name"]: query.Schema(dict(one["fields"]), open=False) for one in graph["types"]}
    found = replace(query.analyze(query.parse(text), types), elements=dict(graph))
    return Submit(app_id(name, b""), name, found.stream, found.to_wire(), text, **options)


def words(*found: str, at_ms: int = 0) -> Parsed:
    times = pl.Series([at_ms] * len(found), dtype=pl.Int64)
    frame = pl.DataFrame(
        {"@time": times, "word": pl.Series(found, dtype=pl.String), "n": pl.Series([1] * len(found), dtype=pl.Int64)}
    )
    return Parsed((frame,), malformed=0)
