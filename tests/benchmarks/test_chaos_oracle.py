"""The oracle of `benchmarks.chaos` finds what it is for."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.chaos.hosts import SmallDisks, disks_unavailable
from benchmarks.chaos.oracle import judge
from benchmarks.chaos.servers import Servers
from elf.client import Result

NAMES = ("agent-1", "agent-2")


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    """Two servers that have logged a few events each."""
    with Servers({name: tmp_path / f"{name}.log" for name in NAMES}) as running:
        deadline = time.monotonic() + 30
        while not all(running.logged(name, 0, 1 << 62) for name in NAMES) and time.monotonic() < deadline:
            time.sleep(0.01)
        running.rotate(NAMES[0])
    return running


def window(counted: dict[str, set[int]], **fields: object) -> Result:
    """A window over everything, in which agents have these counts."""
    begin, end = (datetime.fromtimestamp(s, UTC).isoformat().replace("+00:00", "Z") for s in (0, 1 << 33))
    rows = [{"server": name, "ids": json.dumps(sorted(own))} for name, own in counted.items()]
    plain: dict[str, object] = {
        "app": "chaos", "window_start": begin, "window_end": end, "rows": rows, "contributors": 2, "expected": 2,
        "missing": [], "partial": [], "leaped": 0, "events": 0, "late": 0, "malformed": 0, "coerced": 0, "dropped": 0,
        "other": None, "limited": {}, "error": None, "version": 1, "epoch": 1,
    }  # fmt: skip
    return Result(**{**plain, **fields})  # type: ignore[arg-type]


def truth(servers: Servers) -> dict[str, set[int]]:
    return {name: servers.logged(name, 0, 1 << 62) for name in NAMES}


def test_what_the_logs_hold_is_right_and_rotated_logs_hold_all(servers: Servers, tmp_path: Path) -> None:
    verdict = judge([window(truth(servers))], servers, NAMES)
    assert (verdict.wrong, verdict.complete, verdict.deficit) == ([], 1, 0)
    for name in NAMES:
        lines = sum(path.read_bytes().count(b"\n") for path in tmp_path.glob(f"{name}.*"))
        assert lines == len(servers.logged(name, 0, 1 << 62))


def test_an_event_too_many_and_an_exchanged_event_are_found(servers: Servers) -> None:
    ids, strange = truth(servers)["agent-1"], min(truth(servers)["agent-2"])
    for own in (ids | {strange}, ids - {min(ids)} | {strange}):
        findings = judge([window(truth(servers) | {"agent-1": own})], servers, NAMES).wrong
        assert any(f"agent-1 counts [{strange}]" in finding for finding in findings)
        assert any(f"1 events are counted twice: [{strange}]" in finding for finding in findings)


def test_an_event_in_two_windows_is_found(servers: Servers) -> None:
    later = datetime.fromtimestamp(1, UTC).isoformat().replace("+00:00", "Z")
    ids = min(truth(servers)["agent-1"])
    both = [window(truth(servers)), window({"agent-1": {ids}}, window_start=later, partial=list(NAMES))]
    (finding,) = judge(both, servers, NAMES).wrong
    assert "counted twice" in finding


def test_an_event_too_few_is_found_unless_it_was_late(servers: Servers) -> None:
    ids = truth(servers)["agent-1"]
    fewer = truth(servers) | {"agent-1": ids - {min(ids)}}
    (finding,) = judge([window(fewer)], servers, NAMES).wrong
    assert "1 events are in no window" in finding
    assert judge([window(fewer, late=1)], servers, NAMES).wrong == []


def test_a_missing_agent_counts_nothing_and_is_named(servers: Servers) -> None:
    alone = {"agent-2": truth(servers)["agent-2"]}
    assert judge([window(alone, contributors=1, missing=["agent-1"])], servers, NAMES).wrong == []
    both = judge([window(truth(servers), contributors=1, missing=["agent-1"])], servers, NAMES)
    assert any("agent-1 is missing, and counts" in finding for finding in both.wrong)
    unnamed = judge([window(alone, contributors=1)], servers, NAMES)
    assert any("are not 2" in finding for finding in unnamed.wrong)


def test_a_window_comes_once(servers: Servers) -> None:
    twice = judge([window(truth(servers))] * 2, servers, NAMES)
    assert any("published twice" in finding for finding in twice.wrong)


def test_a_disk_of_its_own_is_filled_and_freed(tmp_path: Path) -> None:
    if (reason := disks_unavailable()) is not None:
        pytest.skip(reason)
    folder = tmp_path / "data"
    with SmallDisks({"agent-1": folder}) as disks:
        disks.fill("agent-1")
        with pytest.raises(OSError, match="No space left"):
            (folder / "incarnation").write_text("1")
        disks.free("agent-1")
        (folder / "incarnation").write_text("1")
    assert list(folder.iterdir()) == [], "it is gone with its disk"
