"""Jobs that read another job's results, whose windows have several panes: FROM app('shop')."""

from __future__ import annotations

from collections import Counter

import pytest
from seeds import seeds
from test_following_jobs import SECOND, live
from test_reading_apps import of, read, start_of, write

from query.model.timestamps import parse_timestamp


@pytest.mark.parametrize(
    "windows", seeds("1 SECOND, 4 SECONDS", slow=["4 SECONDS EVERY 1 SECOND", "4 SECONDS EVERY 1 SECOND EMIT CHANGES"])
)
def test_windows_of_several_panes_are_events_of_their_last_second(windows: str) -> None:
    """Each is read once: of one that is shown while it grows, the last word."""
    fleet = live(text=f"SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING {windows}")
    read(fleet)
    write(fleet, 18)
    expected: dict[int, Counter[str]] = {}
    for result in of(fleet, "shop"):
        if result.final:
            end = parse_timestamp(result.window_end or "")
            assert end is not None
            of_window = expected.setdefault((end - SECOND) // 2000 * 2000, Counter())
            for row in result.rows:
                of_window[row["product"]] += row["n"]
    found = of(fleet, "top")
    assert len(found) >= 3
    for result in found:
        assert {row["product"]: row["n"] for row in result.rows} == expected[start_of(result)]
        assert (result.late, result.malformed) == (0, 0)
