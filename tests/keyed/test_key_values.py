"""One processing element is found by its key as people write it; what cannot be a key is refused with the reason."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from agent.programs.element_graph import Element, ElementInput, EventType
from agent.runtime.keyed.seen.key_values import ROWS_SHOWN, KeyMismatchError, key_columns, state_of_key

TYPES = {
    "Seen": EventType("Seen", [("user", "integer"), ("ad", "string"), ("at", "timestamp"), ("bot", "boolean")]),
    "Word": EventType("Word", [("word", "string"), ("n", "integer")]),
}
COUNT = Element("Count", "code", [ElementInput("Word", ["word"])])
PAIR = Element("Pair", "aggregate", [ElementInput("Seen", ["user", "ad"])])
MERGE = Element("Merge", "top", [ElementInput("Word", [], 1234)], output="Merge")
SPLIT = Element("Split", "code", [ElementInput("Word", None)])


def test_texts_become_values_of_the_types_of_the_key() -> None:
    pair = key_columns(TYPES, PAIR, ["7", "shoes"])
    assert [(one.dtype, one.to_list()) for one in pair] == [(pl.Int64(), [7]), (pl.String(), ["shoes"])]
    times = Element("Times", "code", [ElementInput("Seen", ["at", "bot"])])
    for text in ("1500", "1970-01-01T00:00:01.5Z"):
        assert [one[0] for one in key_columns(TYPES, times, [text, "True"])] == [1500, True]
    assert key_columns(TYPES, MERGE, [])[0].to_list() == key_columns(TYPES, MERGE, ["1234"])[0].to_list() == [1234]


@pytest.mark.parametrize(
    ("element", "key", "reason"),
    [
        (PAIR, ["7"], "the key of Pair is (user, ad): 2 values, not 1"),
        (PAIR, ["seven", "shoes"], "user is of type integer, and 'seven' is not"),
        (MERGE, ["5"], "Merge has one key in the whole fleet, 1234"),
        (SPLIT, ["said"], "Split has no key: it runs beside every agent, and keeps no state"),
        (Element("T", "code", [ElementInput("Seen", ["at"])]), ["soon"], "at is of type timestamp, and 'soon' is not"),
    ],
)
def test_what_is_no_key_is_refused_with_the_reason(element: Element, key: list[str], reason: str) -> None:
    with pytest.raises(KeyMismatchError) as raised:
        key_columns(TYPES, element, key)
    assert str(raised.value) == reason


def test_state_of_code_is_the_last_of_the_key() -> None:
    count = msgspec.structs.replace(COUNT, options={"states": {"n": "integer", "last": "json"}})
    gone = [False, False, False, True]
    table = pl.DataFrame(
        {
            "@node": [878] * 4,
            "@key0": ["said", "and", "said", "gone"],
            "@gone": gone,
            "@seen": [5] * 4,
            "n": [3, 4, 5, 6],
        }
    ).with_columns(pl.lit("[1,2]").alias("last"))
    assert state_of_key(count, [pl.Series(["said"])], {"states": table}) == b'{"n":5,"last":[1,2]}'
    for never in ("never", "gone"):
        assert state_of_key(count, [pl.Series([never])], {"states": table}) is None


def test_state_of_a_declared_element_is_its_rows() -> None:
    rows = pl.DataFrame({"@node": [5, 5, 5], "user": [7, 7, 8], "ad": ["a", "b", "a"], "n": [1, 2, 3]})
    found = state_of_key(PAIR, [pl.Series([7]), pl.Series(["b"])], {"counts": rows, "timers": rows.clear()})
    assert found is not None
    assert msgspec.json.decode(found) == {"counts": [{"user": 7, "ad": "b", "n": 2}]}
    assert state_of_key(PAIR, [pl.Series([9]), pl.Series(["b"])], {"counts": rows}) is None


def test_a_long_state_is_cut() -> None:
    rows = pl.DataFrame({"@node": [5] * 5000, "word": [str(n) for n in range(5000)]})
    found = state_of_key(MERGE, [pl.Series([1234])], {"top": rows})
    assert found is not None
    assert len(msgspec.json.decode(found)["top"]) == ROWS_SHOWN
