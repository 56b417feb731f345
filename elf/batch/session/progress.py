"""Shows Spark's progress in one line on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.25


@contextmanager
def spark_progress(spark: SparkSession) -> Iterator[None]:
    """Shows a bar of the running stages' tasks on stderr while the block runs, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[tasks]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        watcher = threading.Thread(target=_watch, args=(tracker, bar, ended))
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _watch(tracker: Any, bar: Progress, ended: threading.Event) -> None:
    task = bar.add_task("Spark", total=None, tasks="")
    while not ended.wait(_POLL_S):
        stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
        done = sum(stage.numCompletedTasks for stage in stages)
        total = sum(stage.numTasks for stage in stages)
        idle = total > 0 and not done and not any(stage.numActiveTasks for stage in stages)
        what = "Spark, waiting for workers" if idle else "Spark"
        bar.update(task, description=what, completed=done, total=total or None, tasks=f"{done:,}/{total:,} tasks")
