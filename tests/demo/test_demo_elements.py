"""The demo of keyed elements: its logs, what they hold, and the comparison of results with it."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import msgspec
from rich.console import Console

from elf.client import Result
from elf.demo.elements.element_board import ElementBoard, HostRow
from elf.demo.elements.element_plays import ELEMENT_PLAYS, element_play
from elf.demo.elements.log_truth import top_words
from elf.demo.elements.log_writing import LapsedClock, LogWriter, quotes


def result(
    rows: list[dict[str, object]], start: str | None = None, end: str | None = None, **changes: object
) -> Result:
    one = Result(
        app="top", window_start=start, window_end=end, rows=rows, contributors=8, expected=8, missing=[], partial=[],
        leaped=0, events=1, late=0, malformed=0, coerced=0, dropped=0, other=None, limited={}, error=None, version=1,
        epoch=1,
    )  # fmt: skip
    return msgspec.structs.replace(one, **changes)


def quoted(tmp_path: Path) -> list[Path]:
    logs = [tmp_path / f"{number}.json" for number in range(3)]
    files = [log.open("ab") for log in logs]
    quotes(5)(range(300), 300, files)
    for file in files:
        file.close()
    return logs


def best_words(logs: list[Path]) -> list[tuple[str, int]]:
    texts = [json.loads(line)["text"] for log in logs for line in log.read_bytes().splitlines()]
    return Counter(word for text in texts for word in text.lower().split()).most_common(10)


def test_the_list_is_that_of_the_logs_or_what_differs_is_named(tmp_path: Path) -> None:
    logs = quoted(tmp_path)
    rows: list[dict[str, object]] = [{"word": word, "n": n} for word, n in best_words(logs)]
    found = top_words([result([]), result(rows)], logs)
    assert (found.checked, found.wrong) == (10, ())
    wrong = top_words([result([*rows[:9], {"word": "the", "n": 1}])], logs)
    assert wrong.wrong[0].startswith("the: 1 in the list, ")
    assert top_words([result(rows[:9])], logs).wrong[0].startswith("the largest counts in the logs are ")
    assert top_words([result(rows, lost=[4, 9])], logs).given_up == "2 logical nodes begun anew"
    assert top_words([], logs).wrong == ("no list came",)


def test_logs_are_written_as_time_passes(tmp_path: Path) -> None:
    logs = [tmp_path / f"shop-{number}" / "log.json" for number in range(4)]
    clock = LapsedClock(1200, 1_790_000_000_000)
    with LogWriter(logs, 2000.0, quotes(1), clock) as writer:
        while writer.lines < 500:
            pass
    times = [[json.loads(line)["time"] for line in log.read_bytes().splitlines()] for log in logs]
    assert all(one == sorted(one) for one in times)
    assert sum(map(len, times)) >= writer.lines >= 500


def test_a_clock_runs_so_many_times_as_fast() -> None:
    slow, fast = LapsedClock().now_ms(), LapsedClock(1000, LapsedClock().now_ms()).now_ms()
    assert 0 <= fast - slow < 60_000_000


def test_the_picture_has_results_and_hosts() -> None:
    play = element_play("top-words")
    assert play is ELEMENT_PLAYS["top_words"]
    hosts = {"agent-1": HostRow(True, nodes=500, elements=120, events_per_s=99.0), "host-1": HostRow(False, "killed")}
    board = ElementBoard(play, 45.0, hosts, window=result([{"word": "th\x1be", "n": 1234}], lost=[1]))
    screen = io.StringIO()
    Console(file=screen, width=110).print(board.render())
    shown = screen.getvalue()
    for text in ("1,234", "th\\x1be", "✗ host-1 (no log)", "● agent-1", "1 logical nodes begun anew"):
        assert text in shown
