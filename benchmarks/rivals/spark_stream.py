"""Spark Structured Streaming on local[2]: all files there are in one micro-batch, its result kept in memory.

It has two shuffle partitions instead of 200, and persists the result in `foreachBatch` instead of writing it
to the memory sink: both are what made it fastest.
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name Spark's own documentation uses

from benchmarks.contender import Answer, measure

SCHEMA = "created_at TIMESTAMP, product STRING, clicks_count BIGINT"


def session(directory: str) -> SparkSession:
    settings = {
        "spark.driver.memory": "2g",
        "spark.local.dir": directory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


class Stream:
    """Runs the query again and again, each time as a new stream with a new checkpoint."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._directory = directory
        self._result: DataFrame | None = None

    def clicks_per_window(self, paths: list[str]) -> DataFrame:
        if self._result is not None:
            self._result.unpersist()
        events = self._spark.readStream.schema(SCHEMA).json(str(Path(paths[0]).parent))
        sums = events.groupBy(F.window("created_at", "30 seconds"), "product").agg(
            F.sum("clicks_count").alias("clicks")
        )
        query = (
            sums.writeStream.outputMode("update")
            .foreachBatch(self._keep)
            .option("checkpointLocation", tempfile.mkdtemp(dir=self._directory))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert self._result is not None
        return self._result

    def _keep(self, batch: DataFrame, number: int) -> None:
        assert number == 0, "all input fits into one micro-batch"
        self._result = batch.persist()
        self._result.count()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        spark = session(directory)
        stream = Stream(spark, directory)
        measure(
            stream.clicks_per_window,
            lambda frame: Answer.of([row.clicks for row in frame.select("clicks").collect()]),
        )
        spark.stop()


if __name__ == "__main__":
    main()
