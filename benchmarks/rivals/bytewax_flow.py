"""Bytewax: a dataflow as its guide has it, on one worker: files by lines, decoded, keyed by product, folded in windows
of event time.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.connectors.files import FileSource
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.testing import TestingSink, run_main

from benchmarks.contender import Answer, measure

BATCH_LINES = 10_000
WINDOW = timedelta(seconds=30)
SPAN = timedelta(minutes=20)
"""Patience with events that are behind others: files are read one after the other, and none is late."""
ALIGNED = datetime(2026, 1, 1, tzinfo=UTC)

Event = tuple[datetime, int]


def keyed(line: str) -> tuple[str, Event]:
    event = json.loads(line)
    return event["product"], (datetime.fromisoformat(event["created_at"]), event["clicks_count"])


def sums(paths: list[str]) -> list[Any]:
    found: list[Any] = []
    flow = Dataflow("clicks")
    lines = [op.input(f"file {n}", flow, FileSource(path, batch_size=BATCH_LINES)) for n, path in enumerate(paths)]
    events = op.map("keyed", op.merge("all", *lines), keyed)
    windows = fold_window(
        "sums",
        events,
        EventClock(ts_getter=lambda event: event[0], wait_for_system_duration=SPAN),
        TumblingWindower(length=WINDOW, align_to=ALIGNED),
        builder=int,
        folder=lambda total, event: total + event[1],
        merger=lambda total, other: total + other,
    )
    op.output("out", windows.down, TestingSink(found))
    run_main(flow)
    return found


if __name__ == "__main__":
    measure(sums, lambda found: Answer.of([total for _, (_, total) in found]))
