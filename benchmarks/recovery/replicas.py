"""Copies of sealed panes on two other agents: what they cost, and how soon a dead agent's part is in its window."""

import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import elf
from agent.runtime.copies.service import HOLDERS, RunCopies
from agent.runtime.messages.copies import Copies, CopyAck
from agent.runtime.messages.jobs import CODEC
from agent.runtime.router import Router
from benchmarks.agents import BACKLOG, running_agents, write_events
from benchmarks.jobs.paper_load import PAUSE_S, Posts
from benchmarks.jobs.simulated_agents import MESSAGE_S, STREAM, SimulatedAgents, without_collector
from benchmarks.overlay.lines import quantile
from benchmarks.overlay.population import progress
from benchmarks.processes import cpu_s
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, smaller, throughput
from elf.client import Result
from elf.demo.agents.agent_process import Settings
from elf.demo.agents.agents import AgentFleet

from .lines import MASTER_TARGET_S, NAME, at_most
from .watching import START_TIMEOUT_S, Publication, WindowWatch, is_complete, watched_job

SPEED_TARGET = 0.9
LOOP_TARGET_MS = 0.3
PANE_S = 5
QUERY = (
    f"SELECT product, SUM(clicks_count) AS clicks FROM {BACKLOG} GROUP BY product WINDOWING {PANE_S} SECONDS "
    "ON STRAGGLER WAIT"
)
"""Agents read what is old as fast as each can: nobody is leaped over for that."""
COUNT_TIMEOUT_S = 300.0
LOOP_AGENTS = 16
LOOP_QUERY = f"SELECT user, COUNT(*) AS posts FROM {STREAM} GROUP BY user WINDOWING 1 SECOND GRACE 1 SECOND"
"""Fifty events a second, of nearly as many users, on each agent."""
WARM_S = 15.0


# Throughput and bytes, on real agents.


def run(agents: int, events: int, rounds: int) -> list[Comparison]:
    """A live job reads a backlog, with copies and without, in turn; the medians are compared."""
    speeds: dict[int, list[float]] = {0: [], HOLDERS: []}
    cpu: dict[int, list[float]] = {0: [], HOLDERS: []}
    pane_bytes: list[float] = []
    for number in range(rounds):
        for holders in (0, HOLDERS) if number % 2 else (HOLDERS, 0):
            speed, used_s, sent = count(agents, events, (("copies", holders),), "copies.sent_bytes")
            progress(f"{holders} copies: {speed:,.0f} events/s, {used_s:.1f} CPU-s, {sent:,.0f} bytes a pane")
            speeds[holders].append(speed)
            cpu[holders].append(1e6 * used_s / events)
            if holders:
                pane_bytes.append(sent)
    case = f"live over a backlog of {events:,} events, {agents} agents, {HOLDERS} copies"
    with_copies, without = (statistics.median(speeds[holders]) for holders in (HOLDERS, 0))
    return [
        throughput(NAME, case, with_copies / 1e6, "M events/s", "no copies", without / 1e6, SPEED_TARGET),
        smaller(
            NAME, f"{case}, CPU per million events", statistics.median(cpu[HOLDERS]), "s", "no copies",
            statistics.median(cpu[0]), SPEED_TARGET,
        ),
        at_most(f"{case}, bytes of copies that an agent sends a pane", statistics.median(pane_bytes), "bytes"),
    ]  # fmt: skip


def count(agents: int, events: int, settings: Settings, counter: str) -> tuple[float, float, float]:
    """Events/s of a live job that reads them, the CPU seconds of all agents, and what a counter of bytes says per agent
    and pane. `settings` are keys of agent.toml."""
    with running_agents(agents, settings) as (fleet, folder, _):
        write_events(folder, fleet.names, BACKLOG, events)
        pids = [fleet.process(name).pid for name in fleet.names]
        used_s, began = cpu_s(pids), time.monotonic()
        panes = 0
        with elf.connect_sync(fleet.socket(fleet.names[0])) as client, client.query(QUERY) as job:
            counted = 0
            for update in job.updates():
                if isinstance(update, Result):
                    counted, panes = counted + update.events, panes + 1
                if counted >= events:
                    break
                if time.monotonic() - began > COUNT_TIMEOUT_S:
                    raise BenchmarkError(f"{counted:,} of {events:,} events were counted within {COUNT_TIMEOUT_S:g} s")
            took_s = time.monotonic() - began
        sent = sum(_counters(fleet, name)[counter] for name in fleet.names)
        return events / took_s, cpu_s(pids) - used_s, sent / agents / panes


def _counters(fleet: AgentFleet, name: str) -> dict[str, int]:
    with elf.connect_sync(fleet.socket(name)) as client:
        return dict(client.status().counters)


# The loop, on simulated agents.


@without_collector()
def run_loop(panes: int) -> list[Comparison]:
    """What agents do for copies, by the clock of the loop's thread, and what links cost for their messages."""
    with _metered() as meter:
        fleet, posts = SimulatedAgents(1, LOOP_AGENTS), Posts(1)
        fleet.run_job(LOOP_QUERY, "copies")
        _log_for(fleet, posts, WARM_S)
        spent_s, letters = meter.spent_s, _messages_of(fleet)
        _log_for(fleet, posts, float(panes))
    # What a message and its answer cost, on each side (docs/transport.md).
    links_s = 2 * MESSAGE_S * (_messages_of(fleet) - letters)
    spent_ms = 1000 * (meter.spent_s - spent_s + links_s) / panes / LOOP_AGENTS
    case = f"loop for {HOLDERS} copies, an agent and pane, simulated, {LOOP_AGENTS} agents, {panes} panes"
    return [at_most(case, spent_ms, "ms", LOOP_TARGET_MS)]


@dataclass(slots=True)
class _Meter:
    """Seconds of the thread that went into copies: taking sealed runs, sending, holding, answering."""

    spent_s: float = 0.0

    def wrap(self, do: Callable[..., Any], is_counted: Callable[..., bool]) -> Callable[..., Any]:
        """The same action, metered where it counts."""

        def metered(*about: Any) -> Any:
            began = time.thread_time()
            try:
                return do(*about)
            finally:
                spent_s = time.thread_time() - began
                if is_counted(*about):
                    self.spent_s += spent_s

        return metered


@contextmanager
def _metered() -> Iterator[_Meter]:
    meter, kinds = _Meter(), (Copies, CopyAck)
    actions = [(RunCopies, name) for name in ("sealed", "step", "tick")] + [(Router, "receive")]
    before = [(owner, name, getattr(owner, name)) for owner, name in actions]

    def is_about_copies(_router: object, event: Any, _now: float) -> bool:
        return isinstance(CODEC.decode(event.payload), kinds)

    for owner, name, do in before:
        setattr(owner, name, meter.wrap(do, is_about_copies if owner is Router else lambda *_: True))
    try:
        yield meter
    finally:
        for owner, name, do in before:
            setattr(owner, name, do)


def _messages_of(fleet: SimulatedAgents) -> int:
    return sum(agent.copies.copy_sender.sent for agent in fleet.agents)


def _log_for(fleet: SimulatedAgents, posts: Posts, seconds: float) -> None:
    for _ in range(round(seconds / PAUSE_S)):
        fleet.insert(lambda _number, feed: posts.read(feed, fleet.wall_ms))
        fleet.run(PAUSE_S)


# Recovery, on real agents.


def run_deaths(agents: int, trials: int) -> list[Comparison]:
    """Kills the master and another agent that have sealed a pane, before its window is out; until it is, with their
    parts, which none that live has but as copies."""
    late_s: list[float] = []
    whole = 0
    with running_agents(agents) as (fleet, folder, _):
        observer = fleet.names[0]
        while len(late_s) < trials:
            with watched_job(fleet, folder, "RECOVER FOR 30 SECONDS", observer=observer) as (app, watch):
                watch.wait(is_complete(agents), "no complete window")
                while len(late_s) < trials and (master := _master(fleet, app)) != observer:
                    victim, slow = [name for name in fleet.names[1:] if name != master][:2]
                    found, took_s = _die(fleet, watch, (master, victim), slow)
                    progress(f"{found.result.contributors} of {found.result.expected} after {took_s:.2f} s")
                    late_s.append(took_s)
                    whole += is_complete(agents)(found)
                    for name in (master, victim):
                        fleet.restart(name)
                    watch.wait(is_complete(agents, time.time()), "no complete window any more")
    place = f"{agents} agents, {trials} times"
    case = "killed with the master, its sealed pane not out"
    return [
        Comparison(NAME, f"{case}, whole windows: {place}", whole, "windows", target=trials, met=whole == trials),
        at_most(f"{case}, from death to window, p50: {place}", quantile(late_s, 0.5), "s"),
        at_most(f"{case}, from death to window, slowest: {place}", max(late_s), "s", MASTER_TARGET_S),
    ]


def _master(fleet: AgentFleet, app: str) -> str:
    with elf.connect_sync(fleet.socket(fleet.names[0])) as client:
        return next(job.master for job in client.jobs() if job.app == app)


def _die(fleet: AgentFleet, watch: WindowWatch, victims: Sequence[str], slow: str) -> tuple[Publication, float]:
    """Kills agents as soon as they have sent copies of another pane, which waits for an agent that stands still; its
    window, and how long after the death it came."""
    fleet.process(slow).signal(signal.SIGSTOP)
    try:
        before = {name: _counters(fleet, name)["copies.messages"] for name in victims}
        last = max(watch.since(0.0), key=lambda found: found.window_end_s)
        deadline = time.monotonic() + START_TIMEOUT_S
        while any(_counters(fleet, name)["copies.messages"] < sent + HOLDERS for name, sent in before.items()):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{', '.join(victims)} seal nothing")
        for name in victims:
            fleet.kill(name)
        killed_s = time.time()
    finally:
        fleet.process(slow).signal(signal.SIGCONT)

    def is_next(found: Publication) -> bool:
        return found.window_end_s > last.window_end_s

    found = watch.wait(is_next, "no windows after the death")
    return found, found.at_s - killed_s
