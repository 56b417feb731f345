"""`--since` and `--until` are of the left events of a join: what they are paired with may lie outside."""

from __future__ import annotations

import json

import pytest

from elf.local import LocalOptions, LocalRun, LocalSource

BEGIN_MS = 1_750_000_000_000
QUERY = (
    "SELECT serves.serve, COUNT(clicks.serve) AS clicked FROM serves LEFT JOIN clicks WITHIN 100 MILLISECONDS "
    "ON serves.serve = clicks.serve GROUP BY serves.serve ORDER BY serves.serve"
)


@pytest.mark.parametrize("agents", [1, 3])
def test_a_range_of_time_is_of_the_left_events(tmp_path, agents):
    serves = [{"time": BEGIN_MS + time, "serve": time} for time in (900, 1_000, 1_999, 2_000)]
    clicks = [{"time": BEGIN_MS + time + after, "serve": time} for time, after in ((900, 0), (1_000, -50), (1_999, 50))]
    sources = []
    for name, events in (("serves", serves), ("clicks", clicks)):
        path = tmp_path / f"{name}.json"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        sources.append(LocalSource(name, (str(path),)))
    options = LocalOptions(0, agents=agents, since_ms=BEGIN_MS + 1_000, until_ms=BEGIN_MS + 2_000)
    (result,) = LocalRun(QUERY, sources, options).results()
    assert [(row["serve"], row["clicked"]) for row in result.rows] == [(1_000, 1), (1_999, 1)]
