"""Every command in docs/batch.md that is shown with what it prints, executed in its order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from elf.cli import cli

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


def run(line: str) -> str:
    """Output and exit code of a command."""
    done = CliRunner().invoke(cli, shlex.split(line)[1:], standalone_mode=False)
    assert done.exception is None, f"{line}: {done.exception!r}"
    return done.stdout + (f"exit code {done.return_value}\n" if done.return_value else "")


@pytest.mark.usefixtures("in_session")
def test_the_document_tells_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "access.json").write_text(lines_beginning('{"time"'))
    (tmp_path / "live.jsonl").write_text("".join(re.findall(r'(\{"app".*"rows".*\n)', DOCUMENT.read_text())))
    assert len(examples()) >= 8
    for command, expected in examples():
        printed = run(command)
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, printed), f"{command}\nprinted {printed}\ninstead of {expected}"
