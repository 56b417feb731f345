"""A failing disk is told of once a minute, however often it fails."""

from __future__ import annotations

import logging

import pytest

from agent.daemon.data_directory import DiskWarnings


def test_each_kind_of_failure_is_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    warnings = DiskWarnings(lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            warnings.warn("unwritten", "no room")
        warnings.warn("unread", "gone")
        now += 59.0
        warnings.warn("unwritten", "no room")
        now += 2.0
        warnings.warn("unwritten", "no room yet")
    assert [record.fields for record in caplog.records] == [  # type: ignore[attr-defined]
        {"what": "unwritten", "why": "no room", "times": 1},
        {"what": "unread", "why": "gone", "times": 1},
        {"what": "unwritten", "why": "no room yet", "times": 6},
    ]
