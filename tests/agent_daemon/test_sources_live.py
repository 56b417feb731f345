"""Two agents as processes: rows of their tables, and what DESCRIBE says of their streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_process import AgentProcess, eventually
from test_agent_fleet import AUTHORITY, Conversation

from agent.control.messages import PublishedWindow, QueryRequest, Refused, Surveyed, SurveyRequest

pytestmark = pytest.mark.live
JOINED = (
    "SELECT p.title, COUNT(*) AS n FROM (SELECT product AS id FROM \"w*\" WHERE product <> 'z') AS t "
    "JOIN table('products') AS p ON t.id = p.id GROUP BY p.title"
)


def agent(folder: Path, name: str, *seeds: str) -> AgentProcess:
    made = AgentProcess(folder / name, AUTHORITY, name, seeds)
    made.change("[[streams]]", '[tables.products]\nfile = "products.csv"\n\n[[streams]]')
    (made.folder / "products.csv").write_text("id,title\na,Apple\nb,Bread\n")
    return made


def test_tables_and_descriptions(tmp_path: Path) -> None:
    with agent(tmp_path, "one") as first, agent(tmp_path, "two", first.address) as second:
        events = [{"product": product, "price": 2} for product in "aabz"]
        (first.folder / "shop.log").write_text("".join(json.dumps(event) + "\n" for event in events))
        (second.folder / "shop.log").write_text('{"product": "b", "price": 1.5, "shop": {"city": "Bern"}}\n')
        first.start().ready()
        second.start().ready()
        eventually(lambda: first.status().leaf_set == ["two"], "both know each other")
        found = second.ask(SurveyRequest("web"))
        assert isinstance(found, Surveyed)
        assert (found.agents, found.asked, found.silent, found.open) == (2, 2, 0, True)
        seen = {column.name: (column.type, column.agents) for column in found.columns}
        assert seen["price"] == ("number", 2)
        assert (seen["product"], seen["shop.city"]) == (("string", 2), ("string", 1))
        nothing = first.ask(SurveyRequest("wep"))
        assert isinstance(nothing, Refused)
        assert "none of the 2 agents that have answered has it" in nothing.message
        unknown = first.ask(QueryRequest(JOINED.replace("'products'", "'product'")))
        assert isinstance(unknown, Refused)
        assert "did you mean products?" in unknown.message
        with Conversation(first, QueryRequest(JOINED)) as asked:
            window = json.loads(bytes(asked.until(PublishedWindow).result))
        assert window["rows"] == [{"title": "Apple", "n": 2}, {"title": "Bread", "n": 2}]
        assert (window["contributors"], window["partial"]) == (2, [])
        assert (second.stop(), first.stop()) == (0, 0)
