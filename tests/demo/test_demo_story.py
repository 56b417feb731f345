"""The demo's story without processes: when acts are due, what the screen says, what the logs say to it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from elf.demo.load.load import LoadReport
from elf.demo.story.acts import (
    BOTH_NEED_S,
    FIRST_WINDOW_S,
    GRACE_S,
    KILL_NEEDS_S,
    WINDOW_S,
    Act,
    ActSchedule,
    WindowSighting,
)
from elf.demo.story.board import ROWS, Board, ShownWindow, happening_line, window_line
from elf.demo.story.tally import judge

STEP_S = 0.25
ROW = {"product": "Star Courier Arena", "SUM(clicks_count)": 1234}
WINDOW = ShownWindow(
    start_ms=1_700_000_000_000, end_ms=1_700_000_005_000, rows=[ROW] * ROWS, contributors=8, expected=8,
    missing=(), partial=(), events=5000, late=0, at_s=12.0, lag_s=0.25,
)  # fmt: skip
LACKING = replace(WINDOW, contributors=7, missing=("agent-5",))


def play(seconds: float, phase_s: float, *, start_s: float = 2.5) -> tuple[dict[Act, float], list[WindowSighting]]:
    """A run in which everything goes as it should: windows close every 5 s, `phase_s` after the query began."""
    acts, done, windows = ActSchedule(seconds), {}, []
    for step in range(int(seconds / STEP_S)):
        now_s = step * STEP_S
        ends_s = now_s - GRACE_S - phase_s
        if ends_s >= WINDOW_S and ends_s % WINDOW_S == 0:
            back_s = done.get(Act.START, 1e9) + start_s
            lacks = done.get(Act.KILL, 1e9) < now_s and back_s > ends_s - WINDOW_S
            windows.append(WindowSighting(now_s, complete=not lacks, lacks_victim=lacks))
        if (act := acts.next_act(now_s, windows)) is not None:
            done[act] = now_s
    return done, windows


@pytest.mark.parametrize("phase_s", [0, 1, 2.5, 4.75])
@pytest.mark.parametrize("seconds", [BOTH_NEED_S, 45, 60, 300])
def test_the_kill_and_the_return_are_both_seen_in_time(seconds: float, phase_s: float) -> None:
    done, windows = play(seconds, phase_s)
    before = [window for window in windows if window.at_s < done[Act.KILL]]
    without = [window for window in windows if done[Act.KILL] < window.at_s < done[Act.START]]
    back = [window for window in windows if window.at_s > done[Act.START] and window.complete]
    assert before
    assert all(window.complete for window in before)
    assert without
    assert without[-1].lacks_victim
    assert back


@pytest.mark.parametrize("phase_s", [0, 4.75])
def test_a_short_demo_leaves_acts_out_and_says_so(phase_s: float) -> None:
    done, windows = play(KILL_NEEDS_S, phase_s)
    assert list(done) == [Act.KILL]
    assert any(window.lacks_victim for window in windows)
    assert "return (it takes 43 seconds)" in (ActSchedule(KILL_NEEDS_S).left_out or "")
    assert play(FIRST_WINDOW_S, phase_s)[0] == {}
    assert "too short to kill an agent (it takes 23 seconds" in (ActSchedule(FIRST_WINDOW_S).left_out or "")
    assert ActSchedule(45).left_out is None


def test_the_acts_do_not_wait_for_ever() -> None:
    acts = ActSchedule(45)
    never_complete = [WindowSighting(12.0, complete=False, lacks_victim=False)]
    times = {act: step for step in range(45) if (act := acts.next_act(step, never_complete))}
    assert 12 < times[Act.KILL] < times[Act.START] < 45


def shown(board: Board, *, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(board.render())
    return console.file.getvalue().rstrip("\n").split("\n")  # type: ignore[attr-defined]


def full_board() -> Board:
    return Board(
        query="SELECT 1", seconds=45, agents={f"agent-{n}": "killed" if n == 5 else "runs" for n in range(1, 9)},
        elapsed_s=23.4, load=LoadReport(23.4, 45, requests=12_345, flash_views=3), windows=[WINDOW, LACKING],
        timeline=[(float(n), f"thing {n}") for n in range(9)],
    )  # fmt: skip


def test_the_picture_fits_a_small_terminal_and_says_everything() -> None:
    lines = shown(full_board())
    assert len(lines) <= 23
    text = "\n".join(lines)
    for words in ("00:23 of 00:45", "12,345 requests", "7 of 8 · missing agent-5", "1,234", "1,000 events/s",
                  "lag 0.25 s", "window 2",
                  "a crowd wants Star Courier Arena", "✗ agent-5", "● agent-8", "00:08  thing 8"):  # fmt: skip
        assert words in text
    assert "thing 2" not in text


def test_a_board_without_windows_or_rows_is_a_board() -> None:
    board = Board("SELECT 1", 45, {"agent-1": "starts"})
    assert "the first window has not closed yet" in "\n".join(shown(board))
    board.windows.append(replace(WINDOW, rows=[]))
    assert "no rows" in "\n".join(shown(board))


def test_lines_say_what_the_picture_says() -> None:
    assert "8 of 8  1,000 events/s  lag 0.25 s  top: Star Courier Arena, 1234" in window_line(WINDOW)
    assert "7 of 8 · missing agent-5" in window_line(LACKING)
    assert happening_line(61.5, "agent-5\x1b[2J") == "01:01  agent-5\\x1b[2J"


def write_logs(folder: Path, moments_ms: list[int]) -> tuple[Path, Path]:
    """The two logs of a server; the access log knows whole seconds only."""
    folder.mkdir()
    events, access = folder / "events.json", folder / "access.log"
    lines = [json.dumps({"created_at": f"2023-11-14T22:13:{20 + ms / 1000:06.3f}Z"}) for ms in moments_ms]
    events.write_text("".join(f"{line}\n" for line in lines).replace(": ", ":"))
    lines = [f'::1 - - [14/Nov/2023:23:13:{20 + ms // 1000:02} +0100] "GET /[x] HTTP/1.1" 200 5' for ms in moments_ms]
    access.write_text("".join(f"{line}\n" for line in lines))
    return events, access


def test_windows_are_held_against_the_logs_where_that_is_exact(tmp_path: Path) -> None:
    logs = {
        "agent-1": write_logs(tmp_path / "1", [0, 4_999, 5_000, 12_000]),
        "agent-5": write_logs(tmp_path / "5", [1, 5_001, 5_002]),
    }
    first = replace(WINDOW, contributors=2, expected=2, events=6)
    second = replace(LACKING, contributors=1, expected=2, start_ms=WINDOW.end_ms, end_ms=WINDOW.end_ms + 5000, events=2)
    verdict = judge([first, second], logs, 5000)
    assert (verdict.complete, verdict.complete_events, verdict.lacking, verdict.lacking_events) == (1, 6, 1, 2)
    assert (verdict.unsure, verdict.wrong) == (0, ())
    over = judge([replace(first, events=7), second], logs, 5000)
    assert [line.endswith("7 counted, 6 in the logs") for line in over.wrong] == [True]
    assert judge([replace(first, partial=("agent-5",)), second], logs, 5000).unsure == 1
    back = judge([first, second, replace(first, start_ms=0, end_ms=5000, events=0, late=4)], logs, 5000)
    assert (back.complete, back.lacking, back.unsure) == (2, 1, 0), "agent-5 brings what it had missed"
    assert judge([replace(first, late=5), second], logs, 5000).unsure == 2
    assert judge([replace(first, late=1, events=5), second], logs, 5000).unsure == 1
    assert judge([replace(first, contributors=1, expected=1), second], logs, 5000).unsure == 1
