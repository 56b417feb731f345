"""How soon a running job answers `elf ask`."""

import time

import elf
from benchmarks.agents import live_logs, running_agents
from benchmarks.environment import use_two_cores
from benchmarks.overlay.lines import quantile
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.replay import Replay
from benchmarks.report import Comparison
from elf.demo.agents.agents import AgentFleet

from .fleets import GROUPS, SELECT, running_query
from .lines import at_most

RATE = 2_000
"""Live events a second, of all agents together."""
P50_TARGET_MS = 20.0
P99_TARGET_MS = 100.0
FIRST_WINDOW_S = 8.0


def run(agents: int, questions: int) -> list[Comparison]:
    """One job over live logs; each agent in turn is asked for its last window."""
    use_two_cores()
    with running_agents(agents) as (fleet, folder, _), Replay(folder / "sample", live_logs(fleet, folder), RATE):
        took_ms = _ask(fleet, questions)
    case = f"a running job asked for its last window, {RATE:,} events/s"
    return [
        at_most(f"{case}, p50: {agents} agents", quantile(took_ms, 0.5), "ms", P50_TARGET_MS),
        at_most(f"{case}, p99: {agents} agents", quantile(took_ms, 0.99), "ms", P99_TARGET_MS),
    ]


def _ask(fleet: AgentFleet, questions: int) -> list[float]:
    """Milliseconds of each question, over a connection of its own, as `elf ask` puts them."""
    took_ms = []
    app = "clicks"
    with running_query(fleet, app, f"{SELECT} {GROUPS}"):
        time.sleep(FIRST_WINDOW_S)
        progress(f"{questions} questions")
        for number in range(questions):
            with elf.connect_sync(fleet.socket(fleet.names[number % len(fleet.names)])) as client:
                began = time.monotonic()
                answer = client.ask(app)
                took_ms.append(1000 * (time.monotonic() - began))
            if not answer.windows:
                raise BenchmarkError("a job that runs had no window to tell")
    return took_ms
