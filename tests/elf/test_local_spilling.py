"""`elf local` over more than it may hold in memory: a temporary folder takes the rest, and is gone at the end."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from elf import local
from elf.local import LocalOptions, LocalRun, LocalSource

QUERY = "SELECT path, COUNT(*) AS hits FROM logs GROUP BY path"


@pytest.fixture
def visits(tmp_path: Path) -> LocalSource:
    path = tmp_path / "visits.json"
    path.write_text("".join(json.dumps({"ts": 5, "path": f"/{number % 300}"}) + "\n" for number in range(1000)))
    return LocalSource("logs", (str(path),))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of temporary files."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    monkeypatch.setattr(local, "JOB_MEMORY_BYTES", 1)
    return path


@pytest.mark.parametrize("agents", [1, 3])
def test_the_answer_is_the_same_and_nothing_stays_behind(visits: LocalSource, folder: Path, agents: int) -> None:
    run = LocalRun(QUERY, [visits], LocalOptions(arrival_ms=0, agents=agents))
    results = run.results()
    (result,) = results
    assert {row["path"]: row["hits"] for row in result.rows} == {f"/{n}": 4 if n < 100 else 3 for n in range(300)}
    assert (result.partial, run.warnings) == ([], [])
    assert list(folder.iterdir()) == []


def test_an_answer_that_is_not_awaited_leaves_nothing_either(visits: LocalSource, folder: Path) -> None:
    results = LocalRun(QUERY, [visits], LocalOptions(arrival_ms=0)).results()
    next(results)
    assert len(list(folder.iterdir())) == 1
    results.close()
    assert list(folder.iterdir()) == []


def test_without_any_place_for_files_there_is_an_answer(
    visits: LocalSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "nowhere"))
    (result,) = LocalRun(QUERY, [visits], LocalOptions(arrival_ms=0)).results()
    assert len(result.rows) == 300
