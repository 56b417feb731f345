"""Tests on real networks are skipped where there can be none; how fast the fleet recovered is told at the end."""

from __future__ import annotations

import pytest
from recoveries import Recoveries

from benchmarks.networks import unavailable

RECOVERIES = pytest.StashKey[Recoveries]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECOVERIES] = Recoveries()


@pytest.fixture(scope="session", autouse=True)
def _networks() -> None:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def recoveries(pytestconfig: pytest.Config) -> Recoveries:
    return pytestconfig.stash[RECOVERIES]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if table := config.stash[RECOVERIES].table():
        terminalreporter.section("how fast the fleet recovered")
        terminalreporter.write_line(table)
