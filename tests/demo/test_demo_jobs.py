"""The demo of shipped jobs without processes: what its screen says, and what is held against the logs."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence

from rich.console import Console

from elf.client import Result
from elf.demo.jobs.job_board import JobBoard
from elf.demo.jobs.job_checks import JobRecord, check
from elf.demo.jobs.job_plays import PLAYS
from elf.demo.load.load import LoadReport
from elf.demo.story.truth import Event, Point, lloyd
from elf.jobs.kmeans import START, nearest, sums_of


def shown(board: JobBoard, *, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(board.render())
    return console.file.getvalue().rstrip("\n").split("\n")  # type: ignore[attr-defined]


def said(window: dict[str, object]) -> Result:
    """A window of a job."""
    empty = {"missing": [], "partial": [], "leaped": 0, "late": 0, "malformed": 0, "coerced": 0, "dropped": 0}
    empty |= {"other": None, "limited": {}, "error": None, "version": 1, "epoch": 1}
    return Result(**{"app": "", **empty, **window})  # type: ignore[arg-type]


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


def step_from(centroids: Sequence[Point], cloud: Sequence[Point]) -> Result:
    """The window of a step of k-means."""
    near = [nearest(point, list(centroids)) for point in cloud]
    rows = [sums_of(k, [point for point, at in zip(cloud, near, strict=True) if at == k]) for k in sorted({*near})]
    return said({"window_start": None, "window_end": None, "contributors": 1, "expected": 1, "events": 0, "rows": rows})


def test_a_run_of_k_means_is_judged_when_it_has_come_to_rest_whatever_came_after_it() -> None:
    draw = random.Random(5)
    cloud = [(round(draw.uniform(-180, 180), 2), round(draw.uniform(-60, 70), 2)) for _ in range(200)]
    log = [Event(n, {"user": {"longitude": x, "latitude": y}}) for n, (x, y) in enumerate(cloud)]
    steps = lloyd(cloud, START)
    assert len(steps) > 4
    run = [step_from(centroids, cloud) for centroids in steps]
    line = f"200 points, {len(steps) - 1} steps to somewhere"

    def found(windows: list[Result], *lines: str) -> tuple[str, ...]:
        return check("kmeans", {"kmeans": JobRecord(windows, list(lines))}, [log]).wrong

    for after in range(len(run) + 1):
        assert found(run + run[:after], line) == ()
    assert found(run[:2] + run, line) == (), "the first run was given up"
    for windows, lines in ((run[:-1], [line]), (run, []), (run, ["199 points, 3 steps to somewhere"])):
        assert found(windows, *lines) == ("kmeans: no run over all 200 points",)
    elsewhere = [step_from(centroids, cloud) for centroids in lloyd(cloud, [(y, x) for x, y in START])]
    assert any("cluster 0 is at" in wrong for wrong in found(elsewhere, line))
    assert found(run, "200 points, 99 steps to somewhere") == (
        f"kmeans: Lloyd's iteration takes {len(steps) - 1} steps, and not: 200 points, 99 steps to somewhere",
    )
