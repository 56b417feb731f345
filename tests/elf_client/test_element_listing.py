"""Tables of keyed elements show what there is, and fit a terminal where little has gone wrong."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from agent.control.messages import ElementEntry, Elements
from elf.output.element_table import listed_elements


def entry(**counts: Any) -> ElementEntry:
    names = ("nodes", "elements", "events", "queue", "emitted", "evicted", "shed", "lost", "null_keys", "refused")
    about = {"app": "words", "element": "Counted", "agent": "web-1", "node_id": "ab", "events_per_s": 0.5}
    return ElementEntry(**{**dict.fromkeys(names, 0), **about, "memory_bytes": 1 << 20, "lag_s": None, **counts})


def shown(*entries: ElementEntry, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(listed_elements(Elements(list(entries), [], 0)).table())
    return captured.get()


def test_columns_without_anything_are_left_out_of_tables_and_titles_are_whole_on_eighty_columns() -> None:
    title = shown(entry(nodes=340, elements=100_000, events=7, emitted=1_234_567)).splitlines()[1]
    assert title.split() == ["APP", "ELEMENT", "HOSTS", "NODES", "ELEMENTS", "RATE", "EVENTS", "EMITTED", "MEMORY"]


def test_what_has_gone_wrong_is_there_if_any_agent_says_so() -> None:
    text = shown(entry(failed=3), entry(null_keys=2, lag_s=0.25, missed=1), width=160)
    assert "FAILED" in text
    assert "MISSED" in text
    assert "LAG" in text
    assert "SHED" not in text
    listing = listed_elements(Elements([entry(failed=3)], [], 0))
    assert listing.rows[0][listing.titles.index("FAILED")] == 3
