"""Answers of runs over archives, many per job of Spark, since each job has a fixed cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

RUNS_PER_JOB = 40
# Of a few rows for each query, compiling it, and tasks for its few parts, would take longer than anything else.
HASTE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": "0",
}


@contextmanager
def haste(spark: SparkSession) -> Iterator[None]:
    """Spark as it is quick over next to nothing."""
    before = {name: spark.conf.get(name) for name in HASTE}
    for name, value in HASTE.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def answers_in_regions(runs):
    """The results of each run by agents' code."""
    answers = []
    for first in range(0, len(runs), RUNS_PER_JOB):
        some = runs[first : first + RUNS_PER_JOB]
        parts = [run.coprocessor_plan.pieces.withColumn("run", F.lit(number)) for number, run in enumerate(some)]
        pieces = reduce(lambda one, other: one.unionByName(other), parts).toArrow()
        for number, run in enumerate(some):
            own = pieces.filter(pc.equal(pieces["run"], number))
            answers.append(list(run.finished(run.coprocessor_plan.gathered(own))))
    return answers


def rows_of(results):
    """The rows of all windows."""
    return [list(row.values()) for result in results for row in result.rows]
