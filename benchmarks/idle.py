"""What an agent costs to which nothing happens: alone, with watched files and a scraper, and with a thousand jobs.

`python -m benchmarks.idle [--quick] [--json FILE] [FIGURE ...]`
"""

import http.client
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import elf
from elf.client import ClientError
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles, free_port

from .agents import LIVE, start_jobs
from .environment import use_two_cores
from .events import write_shop_events
from .processes import usage
from .race import BenchmarkError
from .report import Comparison, main, within

AGENTS = 3
WATCHED_FILES = 100
FEW_JOBS, MANY_JOBS = 20, 1_000
SCRAPE_S = 5.0
SETTLE_S = 15.0
"""Time after the start, or the last submission, before which nothing is measured."""
START_TIMEOUT_S = 600.0
MEMORY_TARGET_MB = 110.0
CPU_TARGET_PERCENT = 1.0
MANY_TARGET_PERCENT = 2.0
"""Upper bound on what so many jobs cost an agent, beyond what it costs without them."""
FIGURES = ("alone", "watching", "jobs")


@dataclass(frozen=True, slots=True)
class Rest:
    """The agent that used most while nothing happened: % of a core, and MB at the end."""

    percent: float
    memory_mb: float


def run(quick: bool, *figures: str) -> list[Comparison]:
    """The figures, in turn. Raises BenchmarkError where a fleet or a query does not work."""
    use_two_cores()
    seconds, many = (10.0, 100) if quick else (60.0, MANY_JOBS)
    wanted = figures or FIGURES
    lines: list[Comparison] = []
    try:
        if "watching" in wanted:
            lines += _watching(seconds)
        if "alone" in wanted or "jobs" in wanted:
            lines += _with_jobs(seconds, many if "jobs" in wanted else 0)
    except (DemoError, ClientError) as error:
        raise BenchmarkError(str(error)) from error
    return lines


def _with_jobs(seconds: float, jobs: int) -> list[Comparison]:
    """A fleet without jobs, and the same one with many that read a log which nobody writes."""
    with _fleet(files=1, is_scraped=False) as (fleet, _):
        time.sleep(SETTLE_S)
        alone = _rest(fleet, seconds)
        case = f"largest of {AGENTS} agents without jobs"
        lines = [
            within("idle", f"CPU, {case}", alone.percent, "% of a core", CPU_TARGET_PERCENT),
            within("idle", f"resident memory, {case}", alone.memory_mb, "MB", MEMORY_TARGET_MB),
        ]
        if jobs:
            _start(fleet, jobs)
            crowded = _rest(fleet, seconds)
            case = f"{jobs:,} idle jobs, largest of {AGENTS} agents"
            more, more_mb = crowded.percent - alone.percent, crowded.memory_mb - alone.memory_mb
            lines += [
                within("idle", f"CPU beyond none, {case}", more, "% of a core", MANY_TARGET_PERCENT),
                within("idle", f"resident memory beyond none, {case}", more_mb, "MB"),
            ]
    return lines


def _watching(seconds: float) -> list[Comparison]:
    """Agents that watch many files, run a few jobs over them, and are scraped as Prometheus does it."""
    with _fleet(files=WATCHED_FILES, is_scraped=True) as (fleet, ports):
        _start(fleet, FEW_JOBS)
        with _scraping(ports) as scraped:
            rest = _rest(fleet, seconds)
    if not scraped or min(scraped) == 0:
        raise BenchmarkError("an agent has answered with no metrics")
    case = (
        f"{FEW_JOBS} idle jobs, {WATCHED_FILES} watched files, metrics each {SCRAPE_S:g} s, largest of {AGENTS} agents"
    )
    return [
        within("idle", f"CPU, {case}", rest.percent, "% of a core", CPU_TARGET_PERCENT),
        within("idle", f"resident memory, {case}", rest.memory_mb, "MB", MEMORY_TARGET_MB),
    ]


@contextmanager
def _fleet(files: int, *, is_scraped: bool) -> Iterator[tuple[AgentFleet, list[int]]]:
    """Agents whose stream has so many files, with an event in each, and the ports of their metrics."""
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as name:
        folder = Path(name)
        ports = [free_port() for _ in range(AGENTS)] if is_scraped else []
        agents = []
        for number in range(AGENTS):
            logs = folder / "logs" / str(number)
            write_shop_events(logs, files, files=files)
            metrics = (("metrics.listen", f"127.0.0.1:{ports[number]}"),) if ports else ()
            agents.append(AgentSpec(f"agent-{number + 1}", (StreamFiles(LIVE, (f"{logs}/*.json",)),), settings=metrics))
        with AgentFleet(folder / "agents", agents) as fleet:
            yield fleet, ports


def _start(fleet: AgentFleet, jobs: int) -> None:
    """Submits different queries through all agents in turn, and waits until all run all of them, at rest."""
    wanted = f"SELECT product, COUNT(*) AS n FROM {LIVE} WHERE clicks_count > "
    queries = [f"{wanted}{number} GROUP BY product WINDOWING 1 MINUTE" for number in range(jobs)]
    with ExitStack() as connections:
        clients = [connections.enter_context(elf.connect_sync(fleet.socket(name))) for name in fleet.names]
        start_jobs(clients, queries, AGENTS, START_TIMEOUT_S)
    time.sleep(SETTLE_S)


def _rest(fleet: AgentFleet, seconds: float) -> Rest:
    pids = [fleet.process(name).pid for name in fleet.names]
    before = [usage(pid).cpu_s for pid in pids]
    began = time.monotonic()
    time.sleep(seconds)
    took_s, after = time.monotonic() - began, [usage(pid) for pid in pids]
    used_s = max(now.cpu_s - then for now, then in zip(after, before, strict=True))
    return Rest(100 * used_s / took_s, max(one.memory_mb for one in after))


@contextmanager
def _scraping(ports: list[int]) -> Iterator[list[int]]:
    """Reads the metrics of all agents again and again in a thread; the sizes of the answers."""
    sizes: list[int] = []
    ended = threading.Event()

    def scrape() -> None:
        while not ended.is_set():
            sizes.extend(map(_scraped, ports))
            ended.wait(SCRAPE_S)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield sizes
    finally:
        ended.set()
        thread.join()


def _scraped(port: int) -> int:
    """The size of an agent's metrics; 0 if it has answered with anything else."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SCRAPE_S)) as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        size = len(answer.read())
    return size if answer.status == http.client.OK else 0


if __name__ == "__main__":
    sys.exit(main("idle", run, FIGURES))
