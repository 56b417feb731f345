"""Runs a fleet of agent processes through faults, and reports what its windows were worth."""

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import elf
from benchmarks.agents import until_all_run
from benchmarks.networks import Network, unavailable
from benchmarks.overlay.lines import quantile
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.recovery.watching import GRACE_S, START_TIMEOUT_S, Publication, WindowWatch, is_complete
from benchmarks.report import Comparison, reaching, within
from elf.client import ClientError
from elf.demo import DemoError
from elf.demo.agents.agents import AgentFleet, AgentSpec, StreamFiles

from .faults import Faults
from .hosts import HostedFleet, SmallDisks, disks_unavailable
from .oracle import Verdict, judge
from .servers import Servers

NAME, APP, STREAM = "chaos", "chaos", "web"
QUERY = (
    f"SELECT server, COLLECT(id, 10000) AS ids FROM {STREAM} GROUP BY server "
    f"WINDOWING 2 SECONDS GRACE {GRACE_S:g} SECONDS"
)
SHOWN_MAX = 20
"""Upper bound on findings that are printed."""
at_most = partial(within, NAME)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much goes wrong, for how many seconds."""

    agents: int
    seconds: float
    seed: int


def run(extent: Extent) -> list[Comparison]:
    """Lets things go wrong, and then waits until windows are complete again. The first agent follows the job."""
    progress(f"seed {extent.seed}")
    with tempfile.TemporaryDirectory(prefix="elf-chaos-") as directory:
        try:
            return _run(extent, Path(directory))
        except (DemoError, ClientError) as error:
            raise BenchmarkError(str(error)) from error


def _run(extent: Extent, folder: Path) -> list[Comparison]:
    names = [f"agent-{number}" for number in range(1, extent.agents + 1)]
    paths = {name: folder / "logs" / name / "web.log" for name in names}
    for path in paths.values():
        path.parent.mkdir(parents=True)
    specs = [AgentSpec(name, (StreamFiles(STREAM, (str(path),)),)) for name, path in paths.items()]
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(paths))
        fleet, disks = _fleet(stack, folder / "agents", specs)
        with elf.connect_sync(fleet.socket(names[0])) as client, client.query(QUERY, app=APP, detach=True) as job:
            until_all_run(job, extent.agents, START_TIMEOUT_S)
        watch = WindowWatch(fleet.socket(names[0]), APP)
        watch.wait(is_complete(extent.agents), "no complete window")
        began_s = time.time()
        faults = Faults(fleet, servers, extent.seed, names[:1], disks)
        faults.run(extent.seconds, watch.check)
        healed_s = time.time()
        last = watch.wait(is_complete(extent.agents, healed_s), "no complete window after the last fault")
        publications = watch.since(began_s)
        watch.close()
    verdict = judge([found.result for found in publications], servers, names)
    for line in [*verdict.wrong, *faults.ended][:SHOWN_MAX]:
        progress(line)
    return _lines(extent, faults, verdict, publications, last.at_s - healed_s)


def _fleet(stack: ExitStack, folder: Path, specs: Sequence[AgentSpec]) -> tuple[AgentFleet, SmallDisks | None]:
    """The agents, each on a host with a disk of its own where that is possible."""
    disks = None
    if (reason := disks_unavailable()) is None:
        disks = stack.enter_context(SmallDisks({spec.name: folder / spec.name / "data" for spec in specs}))
    else:
        progress(f"no disk will be full: {reason}")
    if (reason := unavailable()) is None:
        network = stack.enter_context(Network(len(specs)))
        return stack.enter_context(HostedFleet(folder, specs, network)), disks
    progress(f"nothing will happen to the network: {reason}")
    return stack.enter_context(AgentFleet(folder, specs)), disks


def _lines(
    extent: Extent, faults: Faults, verdict: Verdict, publications: Sequence[Publication], whole_s: float
) -> list[Comparison]:
    place = f"{extent.agents} agents, {faults.count} faults in {extent.seconds:g} s, seed {extent.seed}"
    late_s = [found.late_s for found in publications]
    kinds = [at_most(f"faults: {what}", count, "faults") for what, count in sorted(faults.counts.items())]
    return [
        reaching(NAME, f"windows published: {place}", verdict.windows, "windows", 1.0),
        at_most("windows that are not what the logs hold", len(verdict.wrong), "findings", 0.0),
        at_most("agents that ended by themselves", len(faults.ended), "agents", 0.0),
        at_most("windows with all agents, of 100", 100 * verdict.complete / max(1, verdict.windows), "%"),
        at_most("events in windows", verdict.events, "events"),
        at_most("late events, said", verdict.late, "events"),
        at_most("windows after their end and grace, p50", quantile(late_s, 0.5), "s"),
        at_most("windows after their end and grace, p99", quantile(late_s, 0.99), "s"),
        at_most("first complete window after the last fault", whole_s, "s"),
        *kinds,
    ]
