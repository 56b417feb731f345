"""The files of published results: whole lines, what they need before them, bounded, and never in the loop's way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from agent.daemon import result_files
from agent.daemon.result_files import ResultFiles
from agent.runtime.master.results.result_archive import ResultRecord

CONTEXT = (b'{"kind":"version","text":"SELECT"}', b'{"kind":"roster","agents":["a"]}')


class Written:
    """What is in a folder after some records, each at a time of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ms = 1_700_000_000_000
        self.said: list[tuple[str, str]] = []
        self.files = self.start()

    def start(self) -> ResultFiles:
        return ResultFiles(self.folder, lambda: self.now_ms, lambda what, why: self.said.append((what, why)))

    def add(self, *numbers: int, context: tuple[bytes, ...] = CONTEXT) -> None:
        """Writes these, and ends."""

        async def run() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.files.run)
                for number in numbers:
                    self.files.add(ResultRecord(b'{"kind":"result","n":%d}' % number, context))
                nursery.cancel_scope.cancel()

        trio.run(run)

    def lines(self) -> list[list[dict[str, Any]]]:
        return [list(map(json.loads, path.read_text().splitlines())) for path in sorted(self.folder.iterdir())]


def kinds(lines: list[dict[str, Any]]) -> list[Any]:
    return [line.get("n", line["kind"]) for line in lines]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "results")


def test_what_a_result_needs_stands_once_before_it(written: Written) -> None:
    written.add(1, 2)
    written.add(3, context=(CONTEXT[0], b'{"kind":"other"}'))
    (lines,) = written.lines()
    assert kinds(lines) == ["version", "roster", 1, 2, "other", 3]
    assert [line["time"] for line in lines] == ["2023-11-14T22:13:20Z"] * 6


def test_every_start_and_every_day_begins_a_file_that_says_it_again(written: Written) -> None:
    written.add(1)
    written.files = written.start()
    written.add(2)
    written.now_ms += result_files.FILE_AGE_MS + 1
    written.add(3)
    assert [kinds(lines) for lines in written.lines()] == [["version", "roster", n] for n in (1, 2, 3)]


def test_large_files_are_followed_by_others_and_the_oldest_go(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_files, "FILE_BYTES_MAX", 300)
    monkeypatch.setattr(result_files, "FILES_MAX", 4)
    written.add(*range(100))
    files = written.lines()
    assert len(files) == 4
    assert all(kinds(lines)[:2] == ["version", "roster"] for lines in files)
    assert files[-1][-1]["n"] == 99


def test_a_disk_that_takes_nothing_is_said_and_counted(written: Written) -> None:
    written.folder.write_text("no folder")
    written.add(1, 2)
    assert written.files.dropped == 2
    assert [what for what, _ in written.said] == ["results of jobs are not written"]
    written.folder.unlink()
    written.add(3)
    assert [kinds(lines) for lines in written.lines()] == [["version", "roster", 3]]


def test_a_disk_that_is_too_slow_holds_up_nobody(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "WAITING_BYTES_MAX", 250)
    written.add(1, 2, 3, 4)
    assert written.files.dropped == 2
    assert kinds(written.lines()[0]) == ["version", "roster", 1, 2]
