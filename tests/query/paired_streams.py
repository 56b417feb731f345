"""A model of joins of two streams: all pairs, one by one; queries read them as events with both sides inside."""

from __future__ import annotations

import re

from hypothesis import strategies as st
from query_pipeline import run

from query import Schema

ON = "serves.serve = clicks.serve AND serves.ad = clicks.ad"
KEY = ("serve", "ad")
"""The fields that ON compares."""
OPEN = {"serves": Schema({}, open=True), "clicks": Schema({}, open=True)}


WITHIN_MS = 100
IDS = st.one_of(st.none(), st.sampled_from([1, 1.0, 2, 2.5, "1", "a", True, 2**53 + 1]))
TIMES = st.one_of(st.integers(0, 600), st.sampled_from([0, 100, 200, 300]))
SERVES = st.lists(
    st.fixed_dictionaries({"@time": TIMES, "serve": IDS, "ad": IDS, "place": st.sampled_from(["top", "side", None])}),
    max_size=10,
)
CLICKS = st.lists(
    st.fixed_dictionaries(
        {"@time": TIMES, "serve": IDS, "ad": IDS, "price": st.one_of(st.none(), st.integers(0, 3), st.just(0.5))}
    ),
    max_size=10,
)
JOINS = [f"{kind}JOIN clicks WITHIN {WITHIN_MS} MILLISECONDS ON {ON}" for kind in ("", "LEFT ")]
QUERIES = [
    "SELECT serves.place, COUNT(*) AS n, COUNT(clicks.ad) AS clicked, SUM(clicks.price) AS paid FROM serves {} "
    "GROUP BY serves.place ORDER BY serves.place WINDOWING 200 MILLISECONDS",
    "SELECT clicks.ad, MIN(serves.serve) AS least, COUNT(DISTINCT clicks.serve) AS ids FROM serves {} GROUP BY "
    "clicks.ad ORDER BY clicks.ad",
    "SELECT COUNT(*) AS n FROM serves {} WHERE serves.place = 'top' AND clicks.price > 0",
    "SELECT COUNT(*) AS n FROM serves {} WHERE serves.place IS NULL OR clicks.price IS NULL",
    "SELECT COUNT(*) AS n FROM serves {} WHERE clicks.price IS NULL AND serves.serve IS NOT NULL",
    "SELECT COUNT(*) AS n FROM serves {} WHERE NOT (clicks.price > 0) AND serves.place <> 'side'",
    "SELECT COUNT(*) AS n FROM serves {} WHERE COALESCE(clicks.price, 5) > 2",
    "SELECT COUNT(*) AS n FROM serves {} WHERE clicks.price > 0 OR serves.place = 'top'",
    "SELECT serves.place, clicks.price FROM serves {} ORDER BY clicks.price, serves.place, serves.serve LIMIT 4",
    "SELECT SUM(clicks.price) AS paid FROM serves {} GROUP BY serves.place HAVING serves.place > 'a' ORDER BY paid "
    "WINDOWING 300 MILLISECONDS",
]


def pairs(serves, clicks, within_ms, *, outer):
    """The pairs of events as events with a field for each side, at the time of the left one."""
    for serve in serves:
        matches = [one for one in clicks if abs(one["@time"] - serve["@time"]) <= within_ms and are_equal(serve, one)]
        for click in matches:
            yield {"@time": serve["@time"], "serves": serve, "clicks": click}
        if outer and not matches:
            yield {"@time": serve["@time"], "serves": serve}


def are_equal(serve, click):
    """Whether the keys of two events are equal: NULL is equal to nothing, values of different kinds are not equal."""
    values = [(serve.get(name), click.get(name)) for name in KEY]
    return all(one is not None and kind_of(one) == kind_of(other) and one == other for one, other in values)


def kind_of(value):
    return "number" if type(value) in (int, float) else type(value)


def expected(text, serves, clicks, within_ms):
    """The rows that a query over a join gives."""
    _, outer, _ = found = re.split(r"(LEFT )?JOIN .* ON " + re.escape(ON), text, maxsplit=1)
    before, after = found[0], found[2]
    over = before.replace("FROM serves", "FROM pairs") + after
    return run(over, list(pairs(serves, clicks, within_ms, outer=bool(outer))), {"pairs": Schema({}, open=True)})
