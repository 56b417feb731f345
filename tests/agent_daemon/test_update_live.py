"""Two agents as processes: `elf update` of a job whose windows overlap leaves none out, and mixes no versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from elf_command import elf
from test_agent_fleet import PER_PRODUCT, Conversation, busy, fleet

from agent.control.messages import PublishedWindow, QueryRequest
from query import parse_timestamp

pytestmark = pytest.mark.live
SECOND = 1000
OVERLAPPING = "WINDOWING 10 SECONDS EVERY 1 SECOND GRACE 1 SECOND"
OTHER = f"SELECT COUNT(*) AS apples FROM web WHERE product = 'apple' {OVERLAPPING}"


def start_of(window: dict[str, Any]) -> int:
    start = parse_timestamp(window["window_start"])
    assert start is not None
    return start


@pytest.mark.slow
def test_an_update_of_overlapping_windows_leaves_none_out(tmp_path: Path) -> None:
    with fleet(tmp_path, 2) as pair:
        request = QueryRequest(f"{PER_PRODUCT} {OVERLAPPING}", app="live")
        with Conversation(pair[0], request) as owner, busy(pair):
            owner.until_everyone_runs_it(2)
            seen = [json.loads(bytes(owner.until(PublishedWindow).result)) for _ in range(3)]
            socket = str(pair[1].control_socket)
            code, out, err = elf(tmp_path, "update", "live", "--query", OTHER, "--socket", socket, "--output", "json")
            assert (code, err) == (0, "")
            updated = json.loads(out)
            assert (updated["version"], updated.get("leaves_out", False)) == (2, False)
            while [window["version"] for window in seen].count(2) < 3:
                seen.append(json.loads(bytes(owner.until(PublishedWindow).result)))
    starts = [start_of(window) for window in seen]
    assert starts == list(range(starts[0], starts[-1] + 1, SECOND)), "none is left out, none comes twice"
    begins = parse_timestamp(updated["starts"])
    assert begins is not None
    assert begins - SECOND in starts, "the last window that began before is out too"
    for window in seen:
        assert (window["version"] == 2) == (start_of(window) >= begins)
        (row,) = window["rows"]
        assert row == ({"product": "apple", "n": window["events"]}, {"apples": window["events"]})[window["version"] - 1]
    whole = [window for window in seen if start_of(window) >= begins - 9 * SECOND]
    assert all((window["contributors"], window["missing"]) == (2, []) for window in whole)
    overlapping = [window for window in whole if window["version"] == 1 and window["events"]]
    assert overlapping, "windows were open when the new version began"
