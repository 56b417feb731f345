"""docs/shell.md says what the shell does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from elf_process import elf

from elf.shell.completion import STATEMENTS
from elf.shell.shell_commands import COMMANDS, FORMATS

TEXT = (Path(__file__).parents[2] / "docs" / "shell.md").read_text()


def test_every_command_statement_and_format_is_described() -> None:
    for name, command in COMMANDS.items():
        assert f"{name} {command.argument}".rstrip() in TEXT
    for word in (*STATEMENTS, *FORMATS):
        assert word in TEXT


def test_the_chart_is_what_is_printed(tmp_path: Path) -> None:
    events = [{"time": f"2026-01-01T00:00:{n:02d}Z", "product": f"p{n % 3}", "clicks": n} for n in range(60)]
    log = tmp_path / "clicks.json"
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    example = re.search(r'elf local (--output plot) "(.*)" clicks.json\n((?:    .*\n)+)', TEXT)
    assert example is not None
    printed = elf("local", *example[1].split(), example[2], str(log))
    assert printed.out == example[3].replace("\n    ", "\n").removeprefix("    ")
