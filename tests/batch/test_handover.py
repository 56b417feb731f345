"""Archived windows meet live ones: every window comes once, whenever the agents have joined the job."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from agent.control.messages import Acknowledged, Ended
from elf.batch.backfill.handover import PATIENCE_WINDOWS, find_handover
from elf.batch.backfill.job import BackfilledJob
from elf.client.attachment import Update
from elf.client.result import Result
from query import format_timestamp

FIRST_MS = 1_700_000_000_000


def window(second: int, size_s: int = 1, *, expected: int = 3, more: bool = False) -> Result:
    """A window that begins at this second."""
    start = FIRST_MS + 1000 * second
    found = Result(
        app="shop", window_start=format_timestamp(start), window_end=format_timestamp(start + 1000 * size_s), rows=[],
        contributors=expected, expected=expected, missing=[], partial=[], leaped=0, events=1, late=0, malformed=0,
        coerced=0, dropped=0, other=None, limited={}, error=None, version=1, epoch=1, more=more, pane=start,
    )  # fmt: skip
    msgspec.structs.force_setattr(found, "json", msgspec.json.encode(found))
    return found


def seconds(results: Sequence[Result]) -> list[int]:
    return [(one.pane - FIRST_MS) // 1000 for one in results]


def test_the_first_window_with_everybody_is_the_seam() -> None:
    live = [window(5, expected=1), window(6, expected=2), window(7), window(8)]
    handover = find_handover(live, 3)
    assert handover is not None
    assert seconds(list(handover.live)) == [7, 8]
    computed = [window(second) for second in range(10)]
    assert seconds(list(handover.before(computed))) == [0, 1, 2, 3, 4, 5, 6]  # type: ignore[arg-type, type-var]
    assert find_handover(live[:2], 3) is None
    assert find_handover([], 3) is None


def test_windows_that_end_together_are_told_apart() -> None:
    live = [window(4, 2, more=True)]
    assert find_handover(live, 3) is None
    handover = find_handover([*live, window(5), window(6)], 3)
    assert handover is not None
    computed = [window(4), window(3, 3), window(4, 2), window(5)]
    assert seconds(list(handover.before(computed))) == [4, 3]  # type: ignore[arg-type, type-var]


def test_a_fleet_with_fewer_agents_than_the_archive_has_a_seam_too() -> None:
    live = [window(second, expected=1 if second < 3 else 2) for second in range(PATIENCE_WINDOWS + 1)]
    assert find_handover(live[:-1], 3) is None
    handover = find_handover(live, 3)
    assert handover is not None
    assert seconds(list(handover.live))[0] == 3
    last = find_handover(live[:1], 3, is_last=True)
    assert last is not None
    assert seconds(list(last.live)) == [0]


class Told:
    """A job whose updates are known beforehand."""

    app, query, columns, bounded, failure = "shop", "SELECT", list[str](), False, ""

    def __init__(self, updates: list[Update | Exception]) -> None:
        self._updates = updates

    def wait(self, timeout_s: float) -> Update | None:
        assert timeout_s > 0
        update = self._updates.pop(0)
        if isinstance(update, Exception):
            raise update
        return update


class Past:
    """An archive that lacks an agent when it is first looked at."""

    def __init__(self, looks_needed: int = 1) -> None:
        self.agents = 3
        self.looks = 0
        self._looks_needed = looks_needed

    def reread(self, text: str) -> None:
        assert text == "SELECT"
        self.looks += 1

    def agents_behind(self, until_ms: int) -> Sequence[str]:
        assert until_ms > FIRST_MS
        return ["agent-1"] if self.looks < self._looks_needed else []

    def before(self, handover: object) -> list[bytes]:
        assert handover
        return [window(second).json[:-1] + b',"source":"archive"}' for second in range(3)]


def everything(job: BackfilledJob) -> list[Update]:
    seen: list[Update] = []
    while not seen or not isinstance(seen[-1], Ended):
        if (update := job.wait(5.0)) is not None:
            seen.append(update)
    return seen


@pytest.mark.parametrize("looks_needed", [1, 2])
def test_the_archives_windows_come_first_and_nothing_that_came_meanwhile_is_lost(looks_needed: int) -> None:
    live = [window(second) for second in range(3, 6)]
    updates = [Acknowledged(3, 3, 1, 1, "agent-1"), *live, Ended("finished")]
    said: list[str] = []
    seen = everything(BackfilledJob(Told([*updates]), Past(looks_needed), said.append))
    windows = [one for one in seen if isinstance(one, Result)]
    assert [one.window_start for one in windows] == [window(second).window_start for second in range(6)]
    assert [b"archive" in one.json for one in windows] == [True] * 3 + [False] * 3
    assert isinstance(seen[0], Acknowledged)


def test_what_the_fleet_fails_to_do_is_raised() -> None:
    job = BackfilledJob(Told([ConnectionError("gone")]), Past(), print)
    with pytest.raises(ConnectionError, match="gone"):
        everything(job)
