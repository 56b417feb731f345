"""WHERE keeps the same events, and everything is counted alike, whether lines are passed over natively or not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.parsing.native import library
from cbt.native.loading import SWITCH
from elf.local import LocalOptions, LocalRun, LocalSource

BEGIN_MS = 1_767_323_045_000
WHERE = (
    "clicks >= 3 AND store <> 'toys'",
    "clicks BETWEEN 2 AND 4 AND clicks + 1 > 3.5",
    "store LIKE 'bo%' OR user.lang IN ('de', 'sw')",
    "store = 'no such store'",
    "1 < clicks AND clicks IN (1, NULL, 4)",
    "STARTS_WITH(store, 'to') AND NOT (clicks = 5)",
)
SHOWN = (
    "SELECT product, SUM(clicks) AS clicks, COUNT(*) AS n FROM events WHERE {} GROUP BY product WINDOWING 10 SECONDS",
    "SELECT product, clicks, store FROM events WHERE {} ORDER BY clicks, product LIMIT 20 WINDOWING 10 SECONDS",
)


@pytest.fixture
def events(tmp_path: Path) -> str:
    """A file with events, some of them with values of other types, no time, or malformed."""
    chance = random.Random(7)
    lines = []
    for number in range(600):
        event: dict[str, Any] = {
            "ts": BEGIN_MS + number * 40,
            "product": f"product {chance.randrange(8)}",
            "clicks": chance.choice([1, 2, 3, 4, 5, 2.5, None, "3", True]),
            "store": chance.choice(["books", "toys", "boats", None, 7, "a store with a long name"]),
            "user": {"lang": chance.choice(["de", "en", "sw"])},
        }
        if chance.random() < 0.05:
            event["ts"] = chance.choice(["soon", None, 10**17])
        if chance.random() < 0.1:
            del event[chance.choice(["clicks", "store", "user"])]
        line = json.dumps(event)
        lines.append(line[: chance.randrange(len(line))] if chance.random() < 0.03 else line)
    path = tmp_path / "events.json"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the native scanner, from when it is asked for on."""
    yield
    monkeypatch.undo()
    library.load.cache_clear()


def _results(path: str, text: str, **options: int) -> tuple[list[object], list[str]]:
    run = LocalRun(text, [LocalSource("events", (path,))], LocalOptions(arrival_ms=0, time_field="ts", **options))
    found = []
    for result in run.results():
        rows = sorted(map(repr, (dict(row) for row in result.rows)))
        counts = (result.events, result.late, result.malformed, result.coerced, result.other)
        found.append((result.window_start, rows, counts, result.partial))
    return found, run.warnings


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize("where", WHERE)
def test_both_ways_show_and_count_the_same(events: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [(shown.format(where), options) for shown in SHOWN for options in ({}, {"since_ms": BEGIN_MS + 7_000})]
    natively = [_results(events, text, **options) for text, options in runs]
    monkeypatch.setenv(SWITCH, "0")
    library.load.cache_clear()
    assert natively == [_results(events, text, **options) for text, options in runs]
    assert sum(len(found) for found, _ in natively) >= 8
