"""Every command in docs/batch.md that is shown with what it prints, executed in its order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs/batch.md"
pytestmark = pytest.mark.spark


def examples() -> list[tuple[str, str]]:
    """Commands, and what they print."""
    found = re.findall(r"^    \$ (.*)\n((?:^    (?!\$ ).*\n)+)", DOCUMENT.read_text(), re.MULTILINE)
    return [(command, re.sub("^    ", "", printed, flags=re.MULTILINE)) for command, printed in found]


def lines_beginning(start: str) -> str:
    """A file of those lines that the document shows."""
    lines = re.findall(rf"^    ({re.escape(start)}.*\n)", DOCUMENT.read_text(), re.MULTILINE)
    return "".join(lines)


@pytest.mark.usefixtures("java")
def test_the_document_tells_the_truth(tmp_path: Path) -> None:
    (tmp_path / "access.json").write_text(lines_beginning('{"time"'))
    (tmp_path / "live.jsonl").write_text("".join(re.findall(r'(\{"app".*"rows".*\n)', DOCUMENT.read_text())))
    commands = [f"{command} --master local[2]" for command, _ in examples()]
    assert len(commands) >= 7
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "run_examples.py")], input=json.dumps(commands), text=True,
        capture_output=True, cwd=tmp_path, env=os.environ | {"COLUMNS": "110"}, timeout=120, check=False,
    )  # fmt: skip
    printed = list(map(json.loads, done.stdout.splitlines()))
    assert len(printed) == len(commands), done.stderr
    for (command, expected), came in zip(examples(), printed, strict=True):
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, came), f"{command}\nprinted {came}\ninstead of {expected}"
