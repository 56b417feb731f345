"""Charts and tables cut to their place, as text."""

from __future__ import annotations

import io
from typing import Any

import pyte
from rich.console import Console

from elf.client import Result
from elf.output.chart import ChartWriter
from elf.output.output import TableWriter
from elf.terminal.live_region import LiveRegion

COLUMNS = ["product", "n"]


def result(rows: list[dict[str, Any]], start: int | None = 0) -> Result:
    bounds = (None, None) if start is None else (f"12:00:{start:02d}", f"12:00:{start + 1:02d}")
    return Result(
        app="shop", window_start=bounds[0], window_end=bounds[1], rows=rows, contributors=1, expected=1, missing=[],
        partial=[], leaped=0, events=2, late=0, malformed=0, coerced=0, dropped=0, other=None, limited={},
        error=None, version=1, epoch=1,
    )  # fmt: skip


def charted(*results: Result, measures: tuple[str, ...] = ("n",), width: int = 80) -> list[str]:
    stream = io.StringIO()
    chart = ChartWriter(measures, Console(file=stream, width=width), None)
    for one in results:
        chart.write(one)
    chart.close()
    return stream.getvalue().splitlines()


def test_a_group_that_is_away_has_a_gap_and_no_newest_value() -> None:
    windows = [
        result([{"product": "a", "n": 8}]),
        result([{"product": "b", "n": 4}], 1),
        result([{"product": "b", "n": 1}], 2),
    ]
    assert [line.rstrip() for line in charted(*windows)] == [
        "n · 12:00:00 … 12:00:03",
        f"{'a':24} █   -",
        f"{'b':24}  ▄▁ 1",
        "1 of 1 agents · 2 events",
    ]


def test_one_group_is_drawn_high() -> None:
    lines = charted(*(result([{"n": n}], n) for n in range(9)))
    assert len(lines) == 1 + 8 + 1
    assert lines[1].split() == ["█", "8"]
    assert lines[8].split() == ["n", "▁████████", "8"]


def test_without_windows_every_group_has_a_bar() -> None:
    lines = charted(result([{"product": "a", "n": 40}, {"product": None, "n": 10}], None))
    assert [line.split() for line in lines[1:3]] == [["a", "█" * 40, "40"], ["NULL", "█" * 10, "10"]]


def test_what_is_no_number_is_not_drawn() -> None:
    odd = [
        {"product": p, "n": n}
        for p, n in zip("abcdef", (None, "x", True, 10**400, float("nan"), float("inf")), strict=True)
    ]
    assert charted(result(odd))[0].startswith("no column of numbers")
    lines = charted(result([*odd, {"product": "g\x1b[2J", "n": -1.5}, {"product": "h", "n": 0}]))
    assert [line.split() for line in lines[1:3]] == [["g\\x1b[2J", "▁", "-1.5"], ["h", "▁", "0"]]


def test_the_first_measure_with_numbers_is_drawn_and_the_largest_groups_are() -> None:
    rows = [{"product": f"p{n:03d}", "first": "text", "n": n} for n in range(500)]
    lines = charted(result(rows), measures=("first", "n"))
    assert lines[1].split()[0] == "p499"
    assert lines[-2] == "… and 480 more"
    assert all(len(line) <= 80 for line in lines)


def test_a_narrow_terminal_shows_the_newest_windows() -> None:
    lines = charted(*(result([{"n": n}], n) for n in range(30)), width=50)
    assert lines[0] == "n · 12:00:20 … 12:00:30"


def test_a_table_in_place_is_cut_to_the_terminal_and_says_so() -> None:
    screen = pyte.Screen(80, 20)
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=20, force_terminal=True)
    table = TableWriter(COLUMNS, console, LiveRegion(console))
    for start in range(3):
        table.write(result([{"product": f"p{n}", "n": n} for n in range(1000)], start))
    table.close()
    pyte.Stream(screen).feed(stream.getvalue().replace("\n", "\r\n"))
    shown = [line.rstrip() for line in screen.display]
    assert [line for line in shown if line.startswith("12:")] == ["12:00:02 … 12:00:03"]
    assert "… 988 more rows" in shown
    assert "1 of 1 agents · 2 events" in shown


def test_records_in_place_are_cut_too() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=20, height=20, force_terminal=True)
    wide = [f"column{n}" for n in range(4)]
    table = TableWriter(wide, console, LiveRegion(console))
    table.write(result([dict.fromkeys(wide, n) for n in range(50)]))
    table.close()
    assert "… 48 more rows" in stream.getvalue()


def test_other_lines_may_come_between_two_drawings() -> None:
    screen = pyte.Screen(80, 20)
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=20, force_terminal=True)
    chart = ChartWriter(("n",), console, LiveRegion(console))
    chart.write(result([{"product": "a", "n": 1}, {"product": "b", "n": 1}]))
    chart.release()
    stream.write("the agent is gone\n")
    chart.write(result([{"product": "a", "n": 1}, {"product": "b", "n": 1}], 1))
    chart.close()
    pyte.Stream(screen).feed(stream.getvalue().replace("\n", "\r\n"))
    shown = [line.rstrip() for line in screen.display if line.strip()]
    assert shown.index("the agent is gone") == 4
    assert shown[5] == "n · 12:00:00 … 12:00:02"
    assert len(shown) == 9
