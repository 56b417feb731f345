"""What tests of jobs in Python begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from program_fleet import Make, ProgramFleet

from agent.runtime.requests.events import AgentObserver
from overlay import Id


@pytest.fixture(autouse=True)
def _uncontained(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job's data raises ends only that job in an agent, but the test here; tests of that undo it."""

    def fail(_observer: AgentObserver, _app_id: Id, error: BaseException) -> None:
        raise error

    monkeypatch.setattr(AgentObserver, "job_contained", fail)


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Make]:
    made: list[ProgramFleet] = []

    def make(size: int = 3, **options: object) -> ProgramFleet:
        made.append(ProgramFleet(tmp_path / str(len(made)), size, **options))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()
