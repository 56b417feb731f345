"""`elf local --job` with code that fails, keys that are NULL, and events that go round: each is named, none hangs."""

from __future__ import annotations

import json
from pathlib import Path

import elf_process
import pytest
from seeds import seeds

from agent.runtime.keyed.hosting import pressure

HEAD = """
import elf

Line = elf.source("SELECT word, n FROM lines")


@elf.event
class Step:
    word: str
    n: int


class Begin(elf.PE):
    keys = {Line: None}

    def process_event(self, line):
        self.emit(Step(line.word, line.n))


"""
ONE = """
class One(elf.PE):
    keys = {{Line: "word"}}
{body}

class Faults(elf.Job):
    elements = [One]
    query = "SELECT COUNT(*) AS n FROM Line"
"""
AROUND = """
@elf.event
class Arrived:
    word: str


class Around(elf.PE):
    keys = {{Step: "word"}}
    ordered = {ordered}

    def process_event(self, step):
        {act}


class Arrivals(elf.PE):
    keys = {{Arrived: "word"}}
    n: int = 0

    def process_event(self, arrived):
        self.n += 1


class Circle(elf.Job):
    elements = [Begin, Around, Arrivals]
    query = "SELECT word, COUNT(*) AS n FROM Arrived GROUP BY word ORDER BY word"
"""
WORDS = ["to", "be", None, "or", "not", "to", None, "be"]


def run(folder: Path, source: str, *words: str) -> elf_process.Finished:
    """Runs a job over a log of words, numbered."""
    (folder / "job.py").write_text(source)
    lines = [{"time": 1_700_000_000_000 + n, "word": word, "n": n} for n, word in enumerate(WORDS)]
    (folder / "lines.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    job = ("--job", str(folder / "job.py"), "--source", f"lines={folder / 'lines.json'}")
    return elf_process.elf("local", *job, *words, "--output", "csv")


FAULTS = {
    "no JSON": ("s: list[int] = []", "self.s = {1}", "its s is {1}, which JSON does not hold as it is"),
    "a circle": ("s: list[int] = []", "self.s += [self.s]", "its s is [[...]], which JSON does not hold as it is"),
    "too large": (
        "s: str = ''", "self.s = 'x' * 2_000_000", "its state has 2,000,000 bytes: at most 1,048,576 are kept"
    ),
    "ends": ("s: int = 0", "raise SystemExit", "SystemExit (job.py:25)"),
}  # fmt: skip


@pytest.mark.parametrize("agents", ["1", "3"])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_element_that_cannot_go_on_ends_the_job_and_is_named(tmp_path: Path, fault: str, agents: str) -> None:
    """Also where no agent keeps states: what fails on a fleet fails on files."""
    state, act, reason = FAULTS[fault]
    body = f"    {state}\n    def process_event(self, line):\n        if line.word == 'not': {act}"
    finished = run(tmp_path, HEAD + ONE.format(body=body), "--agents", agents)
    finished.refuses(1, f"One of 'not': {reason}")
    assert not finished.out


@pytest.mark.parametrize("agents", ["1", "3"])
def test_a_prototype_that_cannot_be_made_ends_the_job_and_is_named(tmp_path: Path, agents: str) -> None:
    body = "    def __init__(self): raise ValueError('no list')\n    def process_event(self, line): pass"
    finished = run(tmp_path, HEAD + ONE.format(body=body), "--agents", agents)
    finished.refuses(1, "One: ValueError: no list (job.py:23)")


@pytest.mark.parametrize("agents", ["1", "3"])
def test_events_with_null_in_their_key_are_told_of(tmp_path: Path, agents: str) -> None:
    finished = run(tmp_path, HEAD + ONE.format(body="    def process_event(self, line): pass"), "--agents", agents)
    assert finished.code == 0, finished.err
    assert finished.out == "n\n8\n"
    assert finished.err == "elf local: One does not get 2 events: there is NULL in their key\n"


def test_a_class_that_cannot_run_is_told_of_once(tmp_path: Path) -> None:
    finished = run(tmp_path, HEAD + ONE.format(body="    every_s = 1\n    def process_event(self, line): pass"))
    finished.refuses(1, "One: has every_s or every_n, and no output(self) that they call")
    assert finished.err.count("One") == 1


GOES_ON = "self.emit(Step(step.word, step.n - 1)) if step.n > 0 else self.emit(Arrived(step.word))"


@pytest.mark.parametrize("agents", ["1", "3"])
@pytest.mark.parametrize("ordered", [False, True])
def test_events_go_round_until_they_leave(tmp_path: Path, ordered: bool, agents: str) -> None:
    finished = run(tmp_path, HEAD + AROUND.format(act=GOES_ON, ordered=ordered), "--agents", agents)
    assert finished.code == 0, finished.err
    assert finished.out == "word,n\nbe,2\nnot,1\nor,1\nto,2\n"


@pytest.mark.parametrize("agents", seeds("1", slow=["3"]))
def test_events_that_go_round_for_ever_end_the_job_with_their_path(
    tmp_path: Path, agents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pressure, "ROUND_S", 2.0)
    act = "self.emit(Step(step.word, 0)); self.emit(Arrived('')) if step.n < 0 else None"
    finished = run(tmp_path, HEAD + AROUND.format(act=act, ordered=False), "--agents", agents)
    finished.refuses(1, "events go round in the circle Step → element Around → Step for 2 s after the end of the input")
