"""The same GROUP BY plain and KEYED BY, on agents in earnest: what sending events costs where trees combine groups."""

import time

import elf
from benchmarks.agents import BACKLOG, running_agents, write_events
from benchmarks.fleet_windows import events_once
from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.demo.agents.agents import AgentFleet

from .lines import less, more

CLAUSES = {"plain": "", "keyed": " KEYED BY product OVER 16 WORKERS"}
READINGS = 2
"""Of each query, of which the last counts: agents know their logs and each other then."""


def run(agents: int, events: int) -> list[Comparison]:
    """Events a second and bytes between agents of both queries over the same logs."""
    rates: dict[str, float] = {}
    sent: dict[str, float] = {}
    with running_agents(agents) as (fleet, folder, _):
        write_events(folder, fleet.names, BACKLOG, events)
        for name, clause in CLAUSES.items():
            query = f"SELECT product, COUNT(*) AS n FROM {BACKLOG}{clause} GROUP BY product WINDOWING 30 SECONDS"
            for _ in range(READINGS):
                rates[name], sent[name] = _read(fleet, query, events)
            progress(f"{name}: {rates[name]:,.0f} events/s, {sent[name]:,.0f} bytes")
    label = f"GROUP BY of {events:,} events on {agents} agents"
    return [
        more(f"{label}, events", rates["keyed"] / 1e3, "k events/s", "plain", rates["plain"] / 1e3, None),
        less(f"{label}, bytes between agents", sent["keyed"] / 1e6, "MB", "plain", sent["plain"] / 1e6),
    ]


def _read(fleet: AgentFleet, query: str, events: int) -> tuple[float, float]:
    before, began = _received(fleet), time.perf_counter()
    counted = events_once(fleet.socket(fleet.names[0]), query)
    took_s = time.perf_counter() - began
    if counted != events:
        raise BenchmarkError(f"{query} counted {counted:,} events of {events:,}")
    return events / took_s, _received(fleet) - before


def _received(fleet: AgentFleet) -> int:
    """Bytes of messages that agents have received from others."""
    found = 0
    for name in fleet.names:
        with elf.connect_sync(fleet.socket(name)) as client:
            found += client.status().counters["node.received_bytes"]
    return found
