"""`elf shell` on a real terminal whose person types on while a statement runs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from shell_screen import CTRL_C, CTRL_D, ENTER, PATIENCE_S, ShellScreen, shell

SLOW = "SELECT p.price, COUNT(*) FROM logs JOIN table('prices') AS p ON p.product = logs.product GROUP BY p.price;"
"""Runs until somebody writes the table, which is a pipe."""
TABLE = "product,price\np0,7\np1,5\n"
LINES = "SHOW STREAMS;" + ENTER + "SELECT COUNT(*) AS typed" + ENTER + "FROM logs;" + ENTER + "\\timing" + ENTER
ANSWERS = (
    "elf> SHOW STREAMS;", "web.json", "elf> SELECT COUNT(*) AS typed", "...> FROM logs;", "60 events", "elf> \\timing",
    "timing is on", "elf>",
)  # fmt: skip
"""To `LINES`, as the screen shows them from top to bottom."""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    os.mkfifo(path)
    return path


@pytest.fixture
def screen(tmp_path: Path, prices: Path) -> Iterator[ShellScreen]:
    events = [{"product": f"p{n % 3}", "clicks": n} for n in range(60)]
    (tmp_path / "web.json").write_text("".join(json.dumps(event) + "\n" for event in events))
    table = f"prices={prices.name}"
    with shell("--local", "web.json", "--table", table, history=tmp_path / "history", cwd=tmp_path) as running:
        yield running


@contextmanager
def waiting_for(table: Path) -> Iterator[IO[str]]:
    """The shell reads the pipe by now, and waits for what it holds."""
    with ThreadPoolExecutor(1) as beside:
        opening = beside.submit(table.open, "w")
        try:
            pipe = opening.result(PATIENCE_S)
        except TimeoutError:
            os.close(os.open(table, os.O_RDONLY | os.O_NONBLOCK))  # nobody else reads it, and the thread is to end
            raise
    with pipe:
        yield pipe


@contextmanager
def running(screen: ShellScreen, prices: Path) -> Iterator[None]:
    """A statement runs meanwhile; in the end it gets its table, first to see what it is and then for its rows."""
    screen.type(SLOW + ENTER)
    with waiting_for(prices) as pipe:
        yield
        table = prices.with_name("written.csv")
        table.write_text(TABLE)
        table.replace(prices)
        pipe.write(TABLE)


def shows_in_order(shown: str, *texts: str) -> None:
    rest = shown
    for text in texts:
        _, found, rest = rest.partition(text)
        assert found, f"no {text!r} where it should be:\n{shown}"


def test_lines_typed_while_a_statement_runs_are_answered_after_it(screen: ShellScreen, prices: Path) -> None:
    with running(screen, prices):
        screen.type(LINES + CTRL_D)
    assert screen.ends() == 0
    shows_in_order(screen.shown, "60 events", *ANSWERS)


def test_what_is_typed_key_by_key_is_there_at_the_next_prompt(screen: ShellScreen, prices: Path) -> None:
    with running(screen, prices):
        for key in "\\tumbling\x7f\x7f\x7f\x7f\x7f\x7f\x7fiming" + ENTER + "SHOW STR":
            screen.type(key)
    screen.until("timing is on")
    screen.until("elf> SHOW STR")
    screen.type("EAMS;" + ENTER)
    screen.until("web.json")
    screen.prompts()
    assert screen.leave() == 0
    assert screen.left_in_order()


def test_ctrl_c_ends_the_statement_that_runs_and_nothing_that_was_typed(screen: ShellScreen, prices: Path) -> None:
    before, after = LINES[:20], LINES[20:]
    screen.type(SLOW + ENTER)
    with waiting_for(prices):
        screen.type(before + CTRL_C + after + CTRL_D)
        assert screen.ends() == 0
    shows_in_order(screen.shown, "^C\ninterrupted\n", *ANSWERS)
    assert "60 events" not in screen.shown.partition(ANSWERS[0])[0]


def test_ctrl_c_right_after_enter_takes_the_statement_back(screen: ShellScreen) -> None:
    screen.type(SLOW + ENTER + CTRL_C + LINES + CTRL_D)
    assert screen.ends() == 0
    shows_in_order(screen.shown, *ANSWERS)


def test_sigterm_while_a_statement_runs_puts_the_terminal_in_order(screen: ShellScreen, prices: Path) -> None:
    screen.type(SLOW + ENTER)
    with waiting_for(prices):
        os.kill(screen.process_id, signal.SIGTERM)
        assert screen.ends() == 130
    assert screen.left_in_order()
