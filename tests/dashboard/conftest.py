"""A fleet, its page, and a real Chromium to open it in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from fleet_for_pages import Dashboard, dashboard, writing_fleet

from elf.demo.agents.agents import AgentFleet

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentFleet]:
    with writing_fleet(tmp_path_factory.mktemp("fleet")) as agents:
        yield agents


@pytest.fixture(scope="session")
def served(fleet: AgentFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    reports = tmp_path_factory.mktemp("reports")
    (reports / "errors.html").write_text("<h1>3 of 3 windows agree</h1><script>parent.document.title = 'x'</script>")
    with dashboard("--socket", fleet.socket("agent-1"), "--reports", reports) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Chromium, driven by playwright."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
