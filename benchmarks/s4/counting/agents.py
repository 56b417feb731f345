"""ELF's agents in the count: DATA_FOLDER WARM_UPS declared|code, and one agent for each file of keys.

Agents, TLS and, for user code, programs are those of production. Clients beside each agent have the events in memory
and send them as `client.emit` does. All updates have to be out, and some of the elements are looked at. Before the
clock starts, other keys are counted, so that agents know where logical nodes are and code is loaded.
"""

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

import elf
from benchmarks.agents import running_agents
from benchmarks.jobs.fleets import program, running_program
from benchmarks.rivals.keys import read_keys
from benchmarks.s4.graphs import DECLARED, PROGRAMS
from elf.client import SyncClient
from elf.client.errors import AnswerTimeoutError, RefusedError
from elf.demo.agents.agents import AgentFleet

from .simulated import truth_of

APP = "count-keys"
CLIENTS = 2
"""Clients beside each agent."""
WARM_UP_ROWS = 20_000
CHECKED_KEYS = 10
POLL_S, TIMEOUT_S = 0.02, 120.0
LOOKS, LOOK_S = 10, 0.5


def main() -> None:
    """Counts once a few events of other keys to warm up, and once all."""
    folder, kind = Path(sys.argv[1]), sys.argv[3]
    shares = [pl.Series("key", read_keys(path)) for path in sorted(folder.iterdir())]
    others = [pl.Series("key", [f"{share} {n}" for n in range(WARM_UP_ROWS)]) for share in range(len(shares))]
    code = program("count_keys", PROGRAMS, DECLARED=kind == DECLARED)
    with running_agents(len(shares)) as (fleet, _, _), running_program(fleet, APP, code):
        counted(fleet, APP, others, 0)
        took_s = counted(fleet, APP, shares, sum(map(len, others)))
    print(json.dumps({"seconds": took_s, "answer": asdict(truth_of(shares))}))


def counted(fleet: AgentFleet, app: str, shares: Sequence[pl.Series], before: int) -> float:
    """The seconds from the first event sent to the last update out. `before`: updates that were out by then."""
    frames = [
        (name, keys.to_frame()[client::CLIENTS])
        for name, keys in zip(fleet.names, shares, strict=True)
        for client in range(CLIENTS)
    ]
    events = before + sum(map(len, shares))
    with (
        elf.connect_sync(fleet.socket(fleet.names[0]), timeout_s=TIMEOUT_S) as client,
        ThreadPoolExecutor(len(frames)) as pool,
    ):
        began = time.perf_counter()
        sent = [pool.submit(_send, fleet, name, app, rows) for name, rows in frames]
        for one in sent:
            one.result()
        while (out := _emitted(client, app)) < events:
            if time.perf_counter() > began + TIMEOUT_S:
                sys.exit(f"{app}: {out - before:,} of {events - before:,} updates are out after {TIMEOUT_S:g} s")
            time.sleep(POLL_S)
        took_s = time.perf_counter() - began
        _check_states(client, app, shares)
        return took_s


def _emitted(client: SyncClient, app: str) -> int:
    """The updates that are out, as far as is known: elements may not have begun, and busy agents be late."""
    with suppress(RefusedError, AnswerTimeoutError):
        return sum(one.emitted for one in client.elements(app).elements)
    return 0


def _send(fleet: AgentFleet, name: str, app: str, rows: pl.DataFrame) -> None:
    with elf.connect_sync(fleet.socket(name), timeout_s=TIMEOUT_S) as client:
        client.emit(app, "Hit", rows)


def _check_states(client: SyncClient, app: str, shares: Sequence[pl.Series]) -> None:
    """Looks at some of the elements, wherever they are: each has to have counted its key's events."""
    counts = dict(pl.concat(shares).value_counts().sort("key").head(CHECKED_KEYS).iter_rows())
    for key, count in counts.items():
        states = _states(client, app, key)
        if len(states) != 1 or count not in _numbers(states[0]):
            sys.exit(f"{app}: {key} has {states}, and there are {count} events of it")


def _states(client: SyncClient, app: str, key: str) -> list[Any]:
    """The states of a key's elements; busy agents may not tell them the first time."""
    for _ in range(LOOKS):
        with suppress(RefusedError, AnswerTimeoutError):
            if found := [one.state for one in client.elements(app, key=[key]).states]:
                return found
        time.sleep(LOOK_S)
    return []


def _numbers(state: Any) -> list[int]:
    """The values in a state: of declared elements it is tables, of code attributes."""
    if isinstance(state, dict | list):
        return [
            number for value in (state.values() if isinstance(state, dict) else state) for number in _numbers(value)
        ]
    return [state] if isinstance(state, int) else []


if __name__ == "__main__":
    main()
