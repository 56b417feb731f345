"""What must hold of a job that reads the windows of its stage, whose own are judged event by event."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any

from lived import OracleLife
from simulated_fleet import Window

from agent import PublishedWindow

READER_MS = 6000
"""Length of the reader's windows."""
BEHIND_S = 20.0
"""A reader's last window is not older than this in the end."""


def check_readers(life: OracleLife, hold: Callable[[bool, str], None]) -> None:
    """Each of its windows holds what the stage's windows in it do, or is partial and holds no more.

    Where two masters of the stage have published a window, the reader has either of them.
    """
    fleet = life.fleet
    assert fleet.coded is not None
    stage = _counts_of_stage(life)
    windows = [window for window in fleet.of(fleet.coded.name) if window.result.final]
    for window in windows:
        start, end = window.pane, end_of(window)
        inside = [found for at, found in stage.items() if start <= at < end]
        rows = {row["agent"]: row["n"] for row in window.result.rows}
        about = f"the reader has {rows} of {inside} in [{start}, {end}) at {window.at:.2f}"
        for name in fleet.servers:
            hold(rows.get(name, 0) <= sum(max(one[name] for one in found) for found in inside), f"too many: {about}")
            if not window.partial:
                hold(rows.get(name, 0) >= sum(min(one[name] for one in found) for found in inside), f"lacks: {about}")
        hold(window.result.late == 0, f"late: {about}")
    starts = Counter((window.pane, end_of(window), window.epoch) for window in windows)
    hold(not starts or max(starts.values()) == 1, f"the reader has published twice: {starts}")
    hold(bool(windows) and fleet.now - windows[-1].at < BEHIND_S, "the reader has stopped")


def _counts_of_stage(life: OracleLife) -> dict[int, list[Counter[str]]]:
    """What the stage says of each of its windows, by their starts."""
    fleet = life.fleet
    lines: dict[int, set[str]] = defaultdict(set)
    for window in fleet.of(fleet.app):
        lines[window.pane].add(window.result.to_json())
    for notice in fleet.follower.followed[fleet.key]:
        if isinstance(notice, PublishedWindow):
            text = bytes(notice.result).decode()
            lines[ms(json.loads(text)["window_start"])].add(text)
    return {start: [_by_agent(json.loads(one)) for one in found] for start, found in lines.items()}


def _by_agent(result: dict[str, Any]) -> Counter[str]:
    return Counter({row["agent"]: row["n"] for row in result["rows"]})


def ms(text: str | None) -> int:
    """A time of a result as epoch ms."""
    assert text is not None
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def end_of(window: Window) -> int:
    return ms(window.result.window_end)
