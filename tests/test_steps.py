"""The steps of `make test` and `make test-all`: nothing is left out, and a step that fails keeps none from running."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
MARKS = ("slow", "live", "net", "spark", "sidecar", "dashboard")


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)


def mark_sets() -> Iterator[frozenset[str]]:
    """Whatever marks a test may have."""
    for count in range(len(MARKS) + 1):
        yield from map(frozenset, combinations(MARKS, count))


def steps(phases: object) -> Iterator[Any]:
    for phase in phases:  # type: ignore[attr-defined]
        for lane in phase:
            yield from lane


def steps_with(phases: object, marks: frozenset[str]) -> list[str]:
    """The steps that run a test with these marks."""
    values = {mark: mark in marks for mark in MARKS}
    return [step.name for step in steps(phases) if eval_marks(step.selects, values)]


def eval_marks(expression: str, values: dict[str, bool]) -> bool:
    """`a and not b`, the only kind of expression there is in steps."""
    terms = expression.split(" and ")
    return all(values[term.removeprefix("not ")] != term.startswith("not ") for term in terms)


@pytest.mark.parametrize("marks", [*mark_sets()], ids=lambda marks: " ".join(sorted(marks)) or "none")
def test_every_test_is_in_a_step(marks: frozenset[str]) -> None:
    from run_tests import DEFAULT, EVERYTHING

    assert len(steps_with(EVERYTHING, marks)) >= 1
    assert len(steps_with(DEFAULT, marks)) == (0 if marks & {"slow", "net", "sidecar", "dashboard"} else 1)


def test_steps_load_all_files_with_their_mark() -> None:
    from run_tests import EVERYTHING

    live = next(step for step in steps(EVERYTHING) if step.name == "live")
    assert {Path(file).name for file in live.files} > {"test_agent_fleet.py", "test_fleet_kills.py"}


def test_all_steps_run_and_those_that_fail_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import run_tests

    (tmp_path / "test_good.py").write_text("import pytest\ndef test_1(): pass\ndef test_2(): pytest.skip('no')\n")
    (tmp_path / "test_bad.py").write_text("def test_3(): assert 1 == 2\n")

    def step(name: str) -> object:
        alone = ("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path))
        return run_tests.Step(name, "not slow", options=(*alone, f"{tmp_path}/test_{name}.py"))

    monkeypatch.setattr(run_tests, "DEFAULT", [[[step("bad"), step("gone")], [step("good")]]])
    monkeypatch.setattr(sys, "argv", ["run_tests.py"])
    assert run_tests.main() == 1
    shown = capsys.readouterr().out.splitlines()
    failed, bad, gone, good, total, last = shown[-6:]
    assert "test_bad.py::test_3" in failed
    assert bad.startswith("=== bad: FAILED (exit code 1): 1 failed in ")
    assert gone.startswith("=== gone: FAILED (exit code 4): no tests ran in ")
    assert good.startswith("=== good: ok: 1 passed, 1 skipped in ")
    assert total == "1 passed, 1 failed, 1 skipped"
    assert last.startswith("FAILED: bad, gone, after 0 min ")
