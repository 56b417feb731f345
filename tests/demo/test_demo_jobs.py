"""The demo of shipped jobs without processes: what its screen says, and what is held against the logs."""

from __future__ import annotations

import io

from rich.console import Console

from elf.client import Result
from elf.demo.jobs.job_board import JobBoard
from elf.demo.jobs.job_checks import JobRecord, check
from elf.demo.jobs.job_plays import PLAYS
from elf.demo.load.load import LoadReport
from elf.demo.story.truth import Event


def shown(board: JobBoard, *, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(board.render())
    return console.file.getvalue().rstrip("\n").split("\n")  # type: ignore[attr-defined]


def said(window: dict[str, object]) -> Result:
    """A window of a job."""
    empty = {"missing": [], "partial": [], "leaped": 0, "late": 0, "malformed": 0, "coerced": 0, "dropped": 0}
    return Result(**{"app": "", "error": None, "version": 1, "epoch": 1, **empty, **window})  # type: ignore[arg-type]


def test_the_picture_of_figure_1_fits_a_small_terminal_and_says_who_asks_whom() -> None:
    roles = PLAYS["figure1"]
    seen = {role.app: JobRecord(said=[f"{role.name} says this {'x' * 200}\x1b"]) for role in roles}
    seen["micro-promotion"].shown.append({"discounts": ["Angry Birds Season", "Pixel Farm Gold"]})
    seen["sale-prediction"].shown += [{}, {}]
    board = JobBoard(roles, 45, LoadReport(18.5, 45, requests=12_345), {"micro-promotion": "agent-4"}, seen)
    board.timeline = [(float(n), f"thing {n}") for n in range(20)]
    lines = shown(board)
    assert len(lines) <= 20
    text = "\n".join(lines)
    for words in ("00:18 of 00:45 · 12,345 requests", "a crowd wants", "product_bundling says this", "agent-4",
                  "shows discounts: Angry Birds Season", "2 × ──▶ product-bundling, micro-promotion",
                  "00:19  thing 19"):  # fmt: skip
        assert words in text
    assert "\x1b" not in text


CLICKS = {"store": "video_games", "likes_count": 0, "buys_count": 0}


def test_a_job_that_does_not_say_what_the_logs_hold_is_told_of() -> None:
    """Two servers; the batches hold one click too few, and somebody saw a discount on what never led."""
    logs = [
        [
            Event(1, {**CLICKS, "product": "a", "clicks_count": 2}),
            Event(2, {**CLICKS, "product": "b", "clicks_count": 1}),
        ],
        [Event(3, {**CLICKS, "product": "a", "clicks_count": 1, "discount": 10})],
    ]
    whole = {"window_start": None, "window_end": "1970-01-01T00:00:05Z", "contributors": 2, "expected": 2, "events": 3}
    rows = [{"product": "a", "clicks": 3}, {"product": "b", "clicks": 1}]
    right = check("micro-promotion", {"micro-promotion": JobRecord([said({**whole, "rows": rows})])}, logs)
    assert (right.checked, right.wrong) == (2, ())
    assert "hold 4 clicks on 2 products, and 1 pages were shown with a discount" in right.words
    wrong = check(
        "micro-promotion", {"micro-promotion": JobRecord([said({**whole, "rows": rows[1:], "events": 2})])}, logs
    )
    assert wrong.wrong == (
        "micro-promotion: a: 0 counted, 3 in the logs",
        "micro-promotion: 2 events in all batches, 3 in the logs",
        "micro-promotion: a had a discount and never led",
    )
    lacking = {**whole, "rows": rows, "contributors": 1, "missing": ["agent-2"]}
    assert check("micro-promotion", {"micro-promotion": JobRecord([said(lacking)])}, logs).checked == 0
    assert check("micro-promotion", {"micro-promotion": JobRecord()}, logs).wrong == (
        "micro-promotion: no window came",
    )
