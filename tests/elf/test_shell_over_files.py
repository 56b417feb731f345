"""`elf shell --local` on a real terminal: what a person sees of it."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from elf_process import elf
from shell_screen import CTRL_C, ENTER, UP, ShellScreen, shell


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Sixty events of three products, one a second."""
    path = tmp_path / "web.json"
    events = [{"time": f"2026-01-01T00:00:{n:02d}Z", "product": f"p{n % 3}", "clicks": n} for n in range(60)]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history"


@pytest.fixture
def screen(log: Path, history: Path) -> Iterator[ShellScreen]:
    with shell("--local", log.name, history=history, cwd=log.parent) as running:
        yield running


def test_a_statement_of_several_lines_is_completed_and_answered(screen: ShellScreen) -> None:
    screen.type("SEL")
    screen.completes("SELECT")
    screen.type(" prod")
    screen.completes("SELECT product")
    screen.type(", COU")
    screen.completes("SELECT product, COUNT(")
    screen.type("*) AS n FROM lo")
    screen.completes("AS n FROM logs")
    screen.type(ENTER)
    screen.until("...>")
    screen.type("GROUP BY product -- all of them;" + ENTER)
    screen.until(lambda text: text.count("...>") == 2)
    screen.type("ORDER BY product;" + ENTER)
    shown = screen.until("1 of 1 agents · 60 events")
    rows = [line.split() for line in shown.split("\n") if line.split()[:1] in (["p0"], ["p1"], ["p2"])]
    assert rows == [["p0", "20"], ["p1", "20"], ["p2", "20"]]
    screen.prompts()
    assert screen.leave() == 0
    assert screen.left_in_order()


def test_an_error_shows_its_place_and_the_shell_goes_on(screen: ShellScreen) -> None:
    screen.type("SHOW STREAMS; SELECT product," + ENTER + "  SUM(clicks FROM logs; SHOW FUNCTIONS;" + ENTER)
    shown = screen.until("^^").split("\n")
    at = next(number for number, line in enumerate(shown) if line.startswith("line 2, column 14:"))
    assert shown[at + 1] == "    SUM(clicks FROM logs"
    assert shown[at + 2].index("^") == shown[at + 1].index("FROM")
    assert any("PATHS" in line for line in shown[:at]), "what comes before the error is answered"
    assert not any("WRITTEN" in line for line in shown), "what comes after it is not"
    screen.type("SELECT nothing FROM lgs;" + ENTER)
    screen.until("did you mean logs?")
    screen.type("SHOW STREAMS;" + ENTER)
    assert "web.json" in screen.until("PATHS")


def test_what_files_hold_is_joined_with_a_table(log: Path, history: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("product,price\np0,7\np1,5\n")
    with shell("--local", log.name, "--table", "prices=prices.csv", history=history, cwd=tmp_path) as screen:
        screen.type("SELECT p.price, COUNT(*) FROM logs JOIN table('prices') AS p ON p.product = logs.product" + ENTER)
        screen.type("GROUP BY p.price;")
        screen.type(ENTER)
        shown = screen.until("1 of 1 agents · 60 events")
        assert [line.split() for line in shown.split("\n") if line.split()[1:] == ["20"]] == [["5", "20"], ["7", "20"]]
        assert screen.leave() == 0


def test_ctrl_c_gives_up_what_is_typed_and_not_the_shell(screen: ShellScreen) -> None:
    screen.type("SELECT somethi")
    screen.until("somethi")
    screen.type(CTRL_C)
    screen.prompts()
    screen.type("\\streams" + ENTER)
    screen.until("web.json")


def test_commands_set_the_format_and_tell_the_time(screen: ShellScreen) -> None:
    screen.type("\\?" + ENTER)
    shown = screen.until("Ctrl-C stops a query")
    assert all(command in shown for command in ("\\q", "\\jobs", "\\streams", "\\d STREAM", "\\o FORMAT", "\\timing"))
    screen.type("\\timing" + ENTER)
    screen.until("timing is on")
    screen.type("\\o csv" + ENTER)
    screen.until("printed as csv")
    screen.type("SELECT COUNT(*) AS n FROM logs WINDOWING 30 SECONDS;" + ENTER)
    screen.until("2026-01-01T00:00:30Z,2026-01-01T00:01:00Z,30")
    screen.until(lambda text: any(line.endswith(" s") for line in text.split("30Z,2026")[-1].split("\n")))
    screen.type("\\o plot" + ENTER + "SELECT SUM(clicks) AS n FROM logs WINDOWING 2 SECONDS;" + ENTER)
    shown = screen.until("n · 2026-01-01T00:00:00Z … 2026-01-01T00:01:00Z")
    screen.type("\\d logs" + ENTER)
    screen.until(lambda text: "clicks    any" in text)
    for wrong, words in {"\\o xml": "\\o knows no xml", "\\nope": "no command \\nope", "\\d": "\\d takes one STREAM",
                         "\\stop it": "there are no jobs here", "\\q now": "\\q takes nothing"}.items():  # fmt: skip
        screen.type(wrong + ENTER)
        screen.until(words)
    screen.prompts()
    screen.type("\\q" + ENTER)
    assert screen.ends() == 0


def test_what_was_typed_comes_back_in_the_next_shell(log: Path, history: Path) -> None:
    with shell("--local", log.name, history=history, cwd=log.parent) as first:
        first.type("SELECT COUNT(*) AS before" + ENTER + "FROM logs;" + ENTER)
        first.until("60 events")
        first.prompts()
        assert first.leave() == 0
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with shell("--local", log.name, history=history, cwd=log.parent) as second:
        second.type(UP)
        second.until(lambda text: "AS before" in text and "...> FROM logs;" in text)
        second.type(ENTER)
        second.until("60 events")


def test_without_a_place_for_the_history_the_shell_works(log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with shell("--local", log.name, history=tmp_path / "file" / "history", cwd=tmp_path) as screen:
        screen.until("the history ends with this shell")
        screen.type("SELECT COUNT(*) FROM logs;" + ENTER)
        screen.until("60 events")


def test_sigterm_puts_the_terminal_in_order(screen: ShellScreen) -> None:
    os.kill(screen.process_id, signal.SIGTERM)
    assert screen.ends() == 130
    assert screen.left_in_order()


def test_text_from_logs_cannot_control_the_terminal(tmp_path: Path, history: Path) -> None:
    log = tmp_path / "hostile.json"
    log.write_text(json.dumps({"a\x1b[2Jb": "\x1b[2J\x07", "c": 1}) + "\n")
    with shell("--local", log.name, history=history, cwd=log.parent) as screen:
        screen.type("SELECT c FROM logs; DESCRIBE logs; SELECT * FROM logs;" + ENTER)
        shown = screen.until("\\x1b[2J\\x07")
        assert "The stream logs is 1 file." in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "elf query -f -"),
        (("--local", "web.json"), "needs a terminal"),
    ],
)
def test_without_a_terminal_there_is_no_shell(arguments: tuple[str, ...], words: str) -> None:
    elf("shell", *arguments).refuses(2, words)
