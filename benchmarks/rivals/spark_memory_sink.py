"""Spark Structured Streaming on local[2] as its guide has it: all files in one micro-batch, into the memory sink."""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name Spark's own documentation uses

from benchmarks.contender import Answer, measure
from benchmarks.rivals.spark_stream import SCHEMA, session

TABLE = "clicks_per_window"


def clicks_per_window(spark: SparkSession, directory: str, paths: list[str]) -> DataFrame:
    events = spark.readStream.schema(SCHEMA).json(str(Path(paths[0]).parent))
    sums = events.groupBy(F.window("created_at", "30 seconds"), "product").agg(F.sum("clicks_count").alias("clicks"))
    query = (
        sums.writeStream.outputMode("complete")
        .format("memory")
        .queryName(TABLE)
        .option("checkpointLocation", tempfile.mkdtemp(dir=directory))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table(TABLE)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        spark = session(directory)
        measure(
            lambda paths: clicks_per_window(spark, directory, paths),
            lambda frame: Answer.of([row.clicks for row in frame.select("clicks").collect()]),
        )
        spark.stop()


if __name__ == "__main__":
    main()
