"""Agent processes on this machine, with logs to read, for the benchmarks that ask them."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

from agent.control.messages import Acknowledged
from elf.client import SyncClient, SyncJob
from elf.demo.agents.agent_process import MODULE, Settings
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

from .events import write_shop_events
from .race import BenchmarkError

BACKLOG = "backlog"
LIVE = "web"
_FIRST_EVENTS = 100
"""What every live log holds from the start, so that there is something to tell its format from."""


@contextmanager
def running_agents(
    agents: int, settings: Settings = (), logs_below: Path | None = None, module: str = MODULE
) -> Iterator[tuple[AgentFleet, Path, float]]:
    """A fleet, the folder its logs belong in (`agent-N/web.json`), and how long it took to be ready. `settings`:
    further keys of their agent.toml. `logs_below`: the file system that holds the logs. `module`: the one that runs
    agents."""
    with ExitStack() as open_folders:
        folder, logs = (
            Path(open_folders.enter_context(tempfile.TemporaryDirectory(prefix="elf-bench-", dir=below)))
            for below in (None, logs_below)
        )
        (folder / "logs").symlink_to(logs)
        names = [f"agent-{number}" for number in range(1, agents + 1)]
        began = time.monotonic()
        for name in names:
            _log(folder, name, LIVE).parent.mkdir(parents=True)
        write_events(folder, names, LIVE, _FIRST_EVENTS * agents)
        with AgentFleet(folder / "agents", [_spec(folder, name, settings, module) for name in names]) as fleet:
            yield fleet, folder, time.monotonic() - began


def _spec(folder: Path, name: str, settings: Settings, module: str) -> AgentSpec:
    live = StreamFiles(LIVE, (str(_log(folder, name, LIVE)),))
    backlog = StreamFiles(BACKLOG, (str(_log(folder, name, BACKLOG)),), read_from="beginning")
    return AgentSpec(name, (live, backlog), settings=settings, module=module)


def start_jobs(clients: Sequence[SyncClient], queries: Sequence[str], agents: int, timeout_s: float) -> float:
    """Submits queries through all clients in turn, as job-0, job-1, ...; the seconds until all agents run all of them.

    Raises BenchmarkError when that takes too long.
    """
    began = time.monotonic()
    for number, (query, client) in enumerate(zip(queries, cycle(clients), strict=False)):
        with client.query(query, app=job_name(number), detach=True):
            pass
    running = 0
    while time.monotonic() - began < timeout_s:
        running = sum(job.agents == job.expected == agents for job in clients[0].jobs())
        if running == len(queries):
            return time.monotonic() - began
        time.sleep(0.5)
    raise BenchmarkError(f"{running} of {len(queries)} jobs run on all agents after {timeout_s:g} s")


def job_name(number: int) -> str:
    """The app of one of the queries of `start_jobs`."""
    return f"job-{number}"


def until_all_run(job: SyncJob, agents: int, timeout_s: float) -> None:
    """Waits for "n of n". Raises BenchmarkError when that takes too long."""
    deadline = time.monotonic() + timeout_s
    while (left_s := deadline - time.monotonic()) > 0:
        match job.wait(left_s):
            case Acknowledged(agents=found, expected=expected) if found == expected == agents:
                return
    raise BenchmarkError(f"a query did not reach all {agents} agents within {timeout_s:g} s")


def memory_folder(bytes_wanted: int) -> Path | None:
    """A folder whose files are in memory, where the system has one and that much memory to give."""
    folder = Path("/dev/shm")
    if not folder.is_dir():
        return None
    room = min(shutil.disk_usage(folder).free, _available_memory())
    return folder if room >= bytes_wanted else None


def _available_memory() -> int:
    """Bytes that Linux would give to processes without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return 0


def write_events(folder: Path, names: Sequence[str], stream: str, events: int) -> None:
    """Gives each agent's log of a stream its share of them."""
    data = write_shop_events(folder / "logs" / f"events of {stream}", events, files=len(names))
    for name, path in zip(names, data.paths, strict=True):
        path.rename(_log(folder, name, stream))


def live_logs(fleet: AgentFleet, folder: Path) -> list[Path]:
    """The logs that live jobs read."""
    return [_log(folder, name, LIVE) for name in fleet.names]


def _log(folder: Path, agent: str, stream: str) -> Path:
    return folder / "logs" / agent / f"{stream}.json"
