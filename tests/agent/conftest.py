"""What tests of jobs in Python begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from program_fleet import Make, ProgramFleet


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Make]:
    made: list[ProgramFleet] = []

    def make(size: int = 3, **options: object) -> ProgramFleet:
        made.append(ProgramFleet(tmp_path / str(len(made)), size, **options))
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()
