"""The same GROUP BY plain and KEYED BY, on agents in earnest: what sending events costs where trees combine groups."""

import time
from collections import defaultdict
from dataclasses import dataclass

import elf
from benchmarks.agents import BACKLOG, running_agents, write_events
from benchmarks.fleet_windows import events_once
from benchmarks.overlay.population import progress
from benchmarks.processes import cpu_s
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison
from elf.demo.agents.agents import AgentFleet

from .lines import OURS, less, more

PLAIN = "plain"
WORKERS_EACH = 4
READINGS = 3
"""Of each query in turn, of which the one with the median of CPU counts, after one of each that does not: agents know
their logs and each other then."""
CPU_GAIN = 0.9
"""Least ratio of the CPU that `fields` takes over ELF's: a tenth more at most."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a query took: seconds, seconds of all agents' CPU, and bytes that they received."""

    took_s: float
    cpu_s: float
    received: int


def run(agents: int, events: int) -> list[Comparison]:
    """Events a second, CPU, and bytes between agents of the queries over the same logs."""
    over = f"OVER {WORKERS_EACH * agents} WORKERS"
    keyed = {name: f" KEYED BY product GROUPING {name} {over}" for name in ("fields", OURS)}
    with running_agents(agents) as (fleet, folder, _):
        write_events(folder, fleet.names, BACKLOG, events)
        readings: dict[str, list[Reading]] = defaultdict(list)
        for _ in range(1 + READINGS):
            for name, clause in ({PLAIN: ""} | keyed).items():
                query = f"SELECT product, COUNT(*) AS n FROM {BACKLOG}{clause} GROUP BY product WINDOWING 30 SECONDS"
                readings[name].append(_read(fleet, query, events))
                progress(f"{name}: {readings[name][-1]}")
    found = {name: sorted(every[1:], key=lambda one: one.cpu_s)[READINGS // 2] for name, every in readings.items()}
    label, ours, million = f"GROUP BY of {events:,} events, {agents} agents", found[OURS], events / 1e6
    return [
        more(f"{label}, rate", million / ours.took_s, "M events/s", PLAIN, million / found[PLAIN].took_s, None),
        less(f"{label}, received", ours.received / 1e6, "MB", PLAIN, found[PLAIN].received / 1e6),
        less(f"{label}, CPU", ours.cpu_s, "s", PLAIN, found[PLAIN].cpu_s),
        less(f"{label}, CPU", ours.cpu_s, "s", "fields", found["fields"].cpu_s, CPU_GAIN),
    ]


def _read(fleet: AgentFleet, query: str, events: int) -> Reading:
    pids = [fleet.process(name).pid for name in fleet.names]
    received, used_s, began = _received(fleet), cpu_s(pids), time.perf_counter()
    counted = events_once(fleet.socket(fleet.names[0]), query)
    took_s = time.perf_counter() - began
    if counted != events:
        raise BenchmarkError(f"{query} counted {counted:,} events of {events:,}")
    return Reading(took_s, cpu_s(pids) - used_s, _received(fleet) - received)


def _received(fleet: AgentFleet) -> int:
    """Bytes of messages that agents have received from others."""
    found = 0
    for name in fleet.names:
        with elf.connect_sync(fleet.socket(name)) as client:
            found += client.status().counters["node.received_bytes"]
    return found
