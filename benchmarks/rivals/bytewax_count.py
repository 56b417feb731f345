"""Bytewax: a running count of each key, on as many processes as there are files, each with the events of one in memory.

The command line is DATA_FOLDER WARM_UPS stateful_map|stateful_batch; with the number of a process and the addresses of
all after it, it is one of these processes.
"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

from benchmarks.rivals.keys import read_keys

BATCH_EVENTS = 10_000
Pair = tuple[str, Any]


class Events(StatelessSourcePartition[Pair]):
    """The events of one process, in batches made beforehand. `began`: when the first was asked for."""

    def __init__(self, path: Path) -> None:
        pairs = [(key, 1) for key in read_keys(path)]
        self._batches = iter([pairs[n : n + BATCH_EVENTS] for n in range(0, len(pairs), BATCH_EVENTS)])
        self.began = 0.0

    def next_batch(self) -> Iterable[Pair]:
        self.began = self.began or time.monotonic()
        return next(self._batches)


class Updates(StatelessSinkPartition[Pair]):
    """Takes updates and adds them up. `ended`: when the last came."""

    def __init__(self) -> None:
        self.rows, self.total, self.ended = 0, 0, 0.0

    def write_batch(self, items: list[Pair]) -> None:
        self.rows += len(items)
        self.total += sum(count for _, count in items)
        self.ended = time.monotonic()


class Source(DynamicSource[Pair]):
    def __init__(self, events: Events) -> None:
        self._events = events

    def build(self, _step_id: str, _worker_index: int, _worker_count: int) -> Events:
        return self._events


class Sink(DynamicSink[Pair]):
    def __init__(self, updates: Updates) -> None:
        self._updates = updates

    def build(self, _step_id: str, _worker_index: int, _worker_count: int) -> Updates:
        return self._updates


class Count(op.StatefulBatchLogic[int, int, int]):
    """Counts the events of one key."""

    def __init__(self, count: int | None) -> None:
        self._count = count or 0

    def on_batch(self, values: list[int]) -> tuple[Iterable[int], bool]:
        found = []
        for value in values:
            self._count += value
            found.append(self._count)
        return found, op.StatefulBatchLogic.RETAIN

    def snapshot(self) -> int:
        return self._count


def added(count: int | None, value: int) -> tuple[int, int]:
    count = value if count is None else count + value
    return count, count


def flow_of(method: str, events: Events, updates: Updates) -> Dataflow:
    flow = Dataflow("count")
    pairs = op.input("events", flow, Source(events))
    if method == "stateful_map":
        counts = op.stateful_map("count", pairs, added)
    else:
        counts = op.stateful_batch("count", pairs, Count)
    op.output("updates", counts, Sink(updates))
    return flow


def run_process(path: Path, method: str, number: int, addresses: list[str]) -> None:
    events, updates = Events(path), Updates()
    cluster_main(flow_of(method, events, updates), addresses if len(addresses) > 1 else None, number)
    print(json.dumps([events.began, updates.ended, updates.rows, updates.total]))


def free_addresses(count: int) -> list[str]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def run_all(folder: Path, method: str) -> None:
    paths = sorted(folder.iterdir())
    addresses = free_addresses(len(paths))
    command = [sys.executable, "-m", "benchmarks.rivals.bytewax_count", str(folder), "0", method]
    processes = [
        subprocess.Popen([*command, str(number), *addresses], stdout=subprocess.PIPE) for number in range(len(paths))
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("a process of Bytewax failed")
    began, ended, rows, total = zip(*(json.loads(output.splitlines()[-1]) for output in outputs), strict=True)
    answer = {"rows": sum(rows), "total": sum(total), "squares": 0}
    print(json.dumps({"seconds": max(ended) - min(began), "answer": answer}))


if __name__ == "__main__":
    data, how = Path(sys.argv[1]), sys.argv[3]
    if len(sys.argv) > 4:
        one = int(sys.argv[4])
        run_process(sorted(data.iterdir())[one], how, one, sys.argv[5:])
    else:
        run_all(data, how)
