"""Completions by Tab, in the shell over files and in bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

import query
from elf.errors import ElfError
from elf.local import LocalOptions, LocalSource
from elf.output.listing import Listing
from elf.shell.completion import ShellCompleter
from elf.shell.knowledge import FRESH_S, Knowledge
from elf.statements.file_backend import FileBackend


@pytest.fixture
def completer(tmp_path: Path) -> ShellCompleter:
    """Over two streams: `web` with product and clicks, `with space` with status."""
    log = tmp_path / "web.json"
    log.write_text('{"time":"2026-01-01T00:00:00Z","product":"a","clicks":1,"user":{"id":1}}\n')
    other = tmp_path / "other.csv"
    other.write_text("status,at\n200,1\n")
    sources = [LocalSource("web", (str(log),)), LocalSource("with space", (str(other),))]
    knowledge = Knowledge(FileBackend(sources, LocalOptions(arrival_ms=0)))
    return ShellCompleter(knowledge, lambda: (query.keywords(), query.signatures()))


def offered(completer: ShellCompleter, text: str) -> list[str]:
    """Completions by Tab at `|`, as they would be written."""
    before, _, after = text.partition("|")
    document = Document(before + after, len(before))
    return [one.text for one in completer.get_completions(document, CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|", ["SELECT", "EXPLAIN", "SHOW", "DESCRIBE"]),
        ("SELECT 1; sh|", ["SHOW"]),
        ("SHOW |", ["STREAMS", "JOBS", "FUNCTIONS", "ELEMENTS"]),
        ("EXPLAIN |", ["SELECT", "ANALYZE", "LATENCY"]),
        ("EXPLAIN LATENCY |", ["SELECT"]),
        ("EXPLAIN ANALYZE |", ["SELECT"]),
        ("DESCRIBE |", ["web", '"with space"']),
        ("SELECT COUNT(*) FROM |", ["web", '"with space"', "app('"]),
        ("SELECT COUNT(*) FROM w|", ["web"]),
        ('SELECT COUNT(*) FROM "w|', ['"with space"']),
        ("SELECT pro| FROM web", ["product"]),
        ("SELECT stat| FROM web", []),
        ('SELECT stat| FROM "with space"', ["status"]),
        ("SELECT pro|", ["product"]),
        ("SELECT sum|", ["SUM("]),
        ("SELECT COUNT(*) FROM web WIN|", ["WINDOW", "WINDOWING"]),
        ("SELECT COUNT(*) FROM web WHERE product = 'pro|", []),
        ("SELECT 'a;| FROM web", []),
        (r"\wa|", [r"\watch"]),
        (r"\o |", ["table", "json", "csv", "plot"]),
        (r"\d we|", ["web"]),
        (r"\nothing w|", []),
    ],
)
def test_what_may_follow_is_offered(completer: ShellCompleter, text: str, expected: list[str]) -> None:
    assert offered(completer, text) == expected


class Forgetful:
    """An agent that is there and goes."""

    def __init__(self) -> None:
        self.is_there = True
        self.asked = 0

    def streams(self) -> Listing:
        self.asked += 1
        if not self.is_there:
            raise ElfError("gone")
        return Listing(["STREAM"], [["web"]], "")


def test_what_is_known_is_asked_for_once_in_a_while_and_kept_when_the_agent_goes() -> None:
    agent, now = Forgetful(), [0.0]
    knowledge = Knowledge(agent, lambda: now[0])  # type: ignore[arg-type]
    assert knowledge.streams() == knowledge.streams() == ["web"]
    assert agent.asked == 1
    agent.is_there = False
    now[0] += FRESH_S
    assert knowledge.streams() == ["web"]
    knowledge.streams()
    assert agent.asked == 2, "an agent that is away is not asked at every key"


BASH = shutil.which("bash")


def completed(*typed: str) -> Sequence[str]:
    """Completions of bash for the last word typed after `elf`, with `elf completion bash` loaded."""
    script = subprocess.run(
        [sys.executable, "-m", "elf", "completion", "bash"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    line = " ".join(f"'{word}'" for word in ("elf", *typed))
    code = f"{script}\nelf() {{ :; }}\nCOMP_WORDS=({line}); COMP_CWORD={len(typed)}\n_elf_completion elf\n"
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    finished = subprocess.run(
        [BASH or "bash", "-c", code], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    return finished.stdout.split()


@pytest.mark.skipif(BASH is None or not Path(sys.executable).with_name("elf").exists(), reason="no bash, or no elf")
def test_bash_completes_commands_options_and_choices() -> None:
    assert completed("que") == ["query"]
    assert completed("query", "--outp") == ["--output"]
    assert completed("query", "--output", "p") == ["plot"]
    assert completed("follow", "--socket", "/nowhere/at/all", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "elf", "completion", shell], capture_output=True, text=True, check=True, timeout=60
    )
    assert f"_ELF_COMPLETE={shell}_complete" in finished.stdout
    assert finished.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_what_the_scripts_of_other_shells_ask_is_answered(shell: str) -> None:
    variables = {
        "_ELF_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "elf compl",
        "COMP_CWORD": "1" if shell == "zsh" else "compl",
    }
    finished = subprocess.run(
        [sys.executable, "-c", "from elf.cli import main; main()"], env=os.environ | variables, capture_output=True,
        text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "completion" in finished.stdout
