"""The log of a process: every line is one JSON object, whatever is logged and whoever crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def logged(program: str, level: str = "info") -> list[dict[str, Any]]:
    """The lines a program writes to standard error."""
    head = f"from agent import log\nimport logging\nlog.start_logging({level!r})\n"
    done = subprocess.run([sys.executable, "-c", head + program], capture_output=True, timeout=300, check=False)
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_fields_stand_beside_time_level_and_event() -> None:
    (line,) = logged("log.info('ready', listen='127.0.0.1:7700', level=3, streams=('a', 'b'), odd=1 << 200)")
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "event": "ready", "listen": "127.0.0.1:7700", "level_": 3, "streams": ["a", "b"],
        "odd": str(1 << 200),
    }  # fmt: skip


def test_levels() -> None:
    program = "log.debug('a'); log.info('b'); log.warn('c')"
    assert [line["event"] for line in logged(program, "warning")] == ["c"]
    assert [line["event"] for line in logged(program, "debug")] == ["a", "b", "c"]


def test_text_from_outside_stays_on_its_line() -> None:
    (line,) = logged(r"log.warn('read', file='a\nb\udcff\x1b[31m', size='x' * 1_000_000)")
    assert line["file"] == "a\nb\\udcff\x1b[31m"
    assert len(line["size"]) == 16_384


def test_other_loggers_are_named() -> None:
    (line,) = logged("logging.getLogger('elf.overlay').warning('refused %s', 'x')")
    assert (line["event"], line["logger"]) == ("refused x", "elf.overlay")


def test_tracebacks_are_part_of_the_line() -> None:
    (line,) = logged("try: 1 / 0\nexcept ArithmeticError as error: log.failed('job failed', error, app='a')")
    assert (line["level"], line["event"], line["app"]) == ("error", "job failed", "a")
    assert line["error"] == "ZeroDivisionError: division by zero"
    assert "Traceback" in line["traceback"]


def test_all_that_a_group_of_exceptions_holds_is_named() -> None:
    group = "ExceptionGroup('two', [KeyError('a'), ExceptionGroup('one', [ValueError('b')])])"
    (line,) = logged(f"log.failed('part failed', {group})")
    assert line["error"] == "KeyError: 'a'; ValueError: b"


def test_what_nobody_caught_is_logged_too() -> None:
    program = """\
import threading, warnings
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
class Odd:
    def __del__(self): raise KeyError("gone")
Odd()
raise RuntimeError("last")
"""
    events = [(line["level"], line["event"].split(":")[0].strip()) for line in logged(program)]
    assert events[1:] == [("error", "thread failed"), ("error", "unraisable"), ("critical", "crashed")]
    assert events[0][0] == "warning"
