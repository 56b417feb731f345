"""Opens the page, follows one of many jobs on it, and samples the page, its server and the agents each minute."""

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import elf
from benchmarks.agents import LIVE, live_logs, running_agents, start_jobs
from benchmarks.environment import use_two_cores
from benchmarks.overlay.population import progress
from benchmarks.processes import cpu_s, usage
from benchmarks.race import BenchmarkError
from benchmarks.replay import Replay
from benchmarks.report import Comparison, within
from elf.client import ClientError
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FIGURES = ("cost", "growth")
AGENTS = 8
JOBS = 50
MINUTES = 30
RATE = 100
"""Live events a second, of all agents together."""
WINDOW_S = 5
"""Short, so that the chart's 120 windows are full after ten minutes."""
PAIRS = 3
QUICK_MINUTES = 10
"""A page that is open for less than this is looked at in one pair."""
INTERVAL_S = 20.0
FORGOTTEN_S = 23.0
"""Time after which the server has forgotten a page that was closed."""
START_TIMEOUT_S = 240.0
PATIENCE_MS = 60_000
GROWTH_MAX = 1.05
"""Upper bound on the last third's median over the middle third's."""
CPU_MAX_PERCENT = 1.0


@dataclass(frozen=True, slots=True)
class _Sample:
    """The page after a collection of garbage, and its server's resident memory."""

    heap_mb: float
    nodes: float
    listeners: float
    server_mb: float


def run(jobs: int, minutes: int, figures: Sequence[str]) -> list[Comparison]:
    """Raises BenchmarkError where the fleet, its page or Chromium does not work."""
    use_two_cores()
    try:
        with running_agents(AGENTS) as (fleet, folder, _), Replay(folder / "sample", live_logs(fleet, folder), RATE):
            with elf.connect_sync(fleet.socket("agent-1")) as client:
                start_jobs([client], [_query(number) for number in range(1, jobs + 1)], AGENTS, START_TIMEOUT_S)
                progress(f"{jobs} jobs run on {AGENTS} agents")
            with _served(fleet) as (server, link), _chromium() as browser:
                pairs = 1 if minutes < QUICK_MINUTES else PAIRS
                report = _cost(fleet, browser, link, jobs, pairs) if "cost" in figures else []
                return report + (_growth(browser, link, server, jobs, minutes) if "growth" in figures else [])
    except (ClientError, DemoError) as error:
        raise BenchmarkError(str(error)) from error


def _query(number: int) -> str:
    """A query that keeps everything, and is different from all others."""
    wanted = f"SELECT store, SUM(clicks_count) AS clicks FROM {LIVE} WHERE clicks_count > {-number}"
    return f"{wanted} GROUP BY store WINDOWING {WINDOW_S} SECONDS"


@contextmanager
def _served(fleet: AgentFleet) -> Iterator[tuple[int, str]]:
    """`elf dashboard` beside the first agent: its process id, and the link that it prints."""
    command = [sys.executable, "-m", "elf", "dashboard", "--listen", "127.0.0.1:0"]
    command += ["--socket", str(fleet.socket("agent-1"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def _chromium() -> Iterator["Browser"]:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise BenchmarkError("playwright is not installed") from None
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise BenchmarkError("there is no Chromium: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def _open(browser: "Browser", link: str) -> Iterator["Page"]:
    """The page, which follows the first job."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(link)
    page.get_by_role("rowheader", name="job-0", exact=True).click()
    page.get_by_role("button", name="Follow", exact=True).click()
    result = page.get_by_role("region", name="Result", exact=True)
    result.get_by_text(f"{AGENTS} of {AGENTS} agents", exact=True).wait_for()
    yield page
    context.close()


def _cost(fleet: AgentFleet, browser: "Browser", link: str, jobs: int, pairs: int) -> list[Comparison]:
    """The CPU of agents, in pairs of intervals without and with the page."""
    pids = [fleet.process(name).pid for name in fleet.names]
    more: list[list[float]] = []
    for pair in range(pairs):
        without = _percents(pids)
        with _open(browser, link):
            opened = _percents(pids)
        more.append([after - before for before, after in zip(without, opened, strict=True)])
        progress(f"pair {pair + 1} of {pairs}: agent-1 {without[0]:.2f}% of a core, with the page {opened[0]:.2f}%")
        time.sleep(FORGOTTEN_S)
    place = f"{jobs} jobs, {AGENTS} agents, median of {pairs} pairs of {INTERVAL_S:g} s"
    asked = statistics.median(one[0] for one in more)
    others = statistics.median(statistics.mean(one[1:]) for one in more)
    beyond = statistics.median(one[0] - statistics.mean(one[1:]) for one in more)
    return [
        _line(f"CPU of the asked agent, more with the page: {place}", asked, "% of a core", CPU_MAX_PERCENT),
        _line(f"the same beyond what other agents take more: {place}", beyond, "% of a core", CPU_MAX_PERCENT),
        _line(f"CPU of another agent, more with the page: {place}", others, "% of a core", CPU_MAX_PERCENT),
    ]


def _percents(pids: Sequence[int]) -> list[float]:
    """Of a core, of each process, over an interval from now on."""
    before, began = [cpu_s([pid]) for pid in pids], time.monotonic()
    time.sleep(INTERVAL_S)
    took_s = time.monotonic() - began
    return [100 * (cpu_s([pid]) - used) / took_s for pid, used in zip(pids, before, strict=True)]


def _growth(browser: "Browser", link: str, server: int, jobs: int, minutes: int) -> list[Comparison]:
    with _open(browser, link) as page:
        samples: list[_Sample] = []
        began = time.monotonic()
        for minute in range(1, minutes + 1):
            time.sleep(max(0.0, began + 60 * minute - time.monotonic()))
            samples.append(_sample(page, server))
            newest = samples[-1]
            progress(
                f"minute {minute}: {newest.heap_mb:.2f} MB of JavaScript, {newest.nodes:,.0f} nodes, "
                f"{newest.listeners:,.0f} listeners, server {newest.server_mb:.1f} MB"
            )
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[-third:]
    report = []
    for name, unit, what in (
        ("heap_mb", "MB", "JavaScript's heap after a collection"),
        ("nodes", "nodes", "nodes of the document"),
        ("listeners", "listeners", "listeners to events"),
        ("server_mb", "MB", "resident memory of the server"),
    ):
        place = f"{what}, {jobs} jobs, page open for {minutes} minutes"
        before, after = (statistics.median(getattr(one, name) for one in part) for part in (middle, last))
        report.append(_line(f"{place}: last third", after, unit))
        report.append(_line(f"{place}: last third over middle third", after / before, "x", GROWTH_MAX))
    return report


def _sample(page: "Page", server: int) -> _Sample:
    developer = page.context.new_cdp_session(page)
    developer.send("Performance.enable")
    developer.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in developer.send("Performance.getMetrics")["metrics"]}
    developer.detach()
    return _Sample(
        metrics["JSHeapUsedSize"] / 1e6, metrics["Nodes"], metrics["JSEventListeners"], usage(server).memory_mb
    )


def _line(case: str, value: float, unit: str, target: float | None = None) -> Comparison:
    return within("dashboard", case, value, unit, target)
