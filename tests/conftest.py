"""What all tests share: hypothesis profiles, where real logs are, and the list of what was skipped."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

collect_ignore_glob = ["*conftest.py"]  # they hold no doctests, and two modules of one name confuse the search
GARBAGE = 20_000
"""Objects that are made before Python looks for garbage among them: tests end before much of it has come together."""
REAL_LOGS = Path(os.environ.get("ELF_REAL_LOGS", Path(__file__).parents[2] / "shared" / "data"))

settings.register_profile("quick", max_examples=10, deadline=None, print_blob=True, derandomize=True)
settings.register_profile("nightly", max_examples=400, deadline=None, print_blob=True)
settings.register_profile(
    "fuzz", max_examples=5000, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


class _Examples:
    """Leaves out modules without examples where doctests are looked for: to search them takes a sixth of this time."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Iterator[None]:
        found = yield
        return [one for one in found if not isinstance(one, DoctestModule) or b">>>" in file_path.read_bytes()]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Examples())  # here it would be asked about files of tests alone


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Half a million objects that stay are made: to look through them for garbage takes a sixth of this time, and later
    a twentieth of that of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()


def pytest_sessionfinish() -> None:
    """What was not to be looked at is garbage now, too: else native modules report it as leaked."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def real_logs() -> Path:
    """The folder with real logs; tests that need it skip where it is missing (set ELF_REAL_LOGS to name it)."""
    if not REAL_LOGS.is_dir():
        pytest.skip("no real logs here: set ELF_REAL_LOGS to the folder that holds them")
    return REAL_LOGS


@pytest.fixture(autouse=True)
def _ctrl_c() -> None:
    """Ctrl-C is what it is on a terminal: in the background of a script it is ignored, and Spark takes it over."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
