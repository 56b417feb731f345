"""`elf local` finishes many panes at once."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import polars as pl
import pytest

from agent import WindowResult
from agent.runtime import embedded
from agent.runtime.function.job_function import JobFunction
from elf.local import LocalOptions, LocalRun, LocalSource

TEXT = "SELECT page, COUNT(*) AS hits FROM web GROUP BY page WINDOWING 1 SECOND"
PANES = 30


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of panes that are finished together."""
    panes_together: list[int] = []
    finish = JobFunction.finish_windows

    def noted(function: JobFunction, state: pl.DataFrame, panes: Collection[int], size_ms: int | None = None) -> object:
        panes_together.append(len(panes))
        return finish(function, state, panes, size_ms)

    monkeypatch.setattr(JobFunction, "finish_windows", noted)
    return panes_together


def results(path: Path, agents: int) -> list[WindowResult]:
    lines = (f'{{"time": {1000 * second}, "page": "/{second % 3}"}}\n' for second in range(PANES) for _ in range(2))
    path.write_text("".join(lines))
    source = LocalSource("web", (str(path),))
    return list(LocalRun(TEXT, [source], LocalOptions(arrival_ms=0, agents=agents, time_field="time")).results())


@pytest.mark.parametrize("agents", [1, 3])
def test_an_embedded_fleet_finishes_many_panes_at_once_and_in_small_pieces_alike(
    finished: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, agents: int
) -> None:
    at_once = results(tmp_path / "web.log", agents)
    assert finished == [PANES]
    finished.clear()
    monkeypatch.setattr(embedded, "ROWS_PER_RUN", 2)
    monkeypatch.setattr(embedded, "PIECE_BYTES", 1)
    assert results(tmp_path / "web.log", agents) == at_once
    assert finished == [1] * PANES
    assert [(result.events, len(result.rows)) for result in at_once] == [(2, 1)] * PANES
