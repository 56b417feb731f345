"""Spark Structured Streaming on local[2]: counts windows of lines that come over a socket, and tells when each was out.

The command line is PORT WINDOW_MS GRACE_MS. It connects to that port of this machine, and ends when the other side
closes it. Append mode, as windows are to be out once; a micro-batch follows the other without a pause. It prints a line
of JSON for each window: its end, and the wall clock when all of its rows were there (epoch s).
"""

import json
import sys
import tempfile
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name Spark's own documentation uses

from benchmarks.rivals.spark_stream import SCHEMA, session


def show(batch: DataFrame, _number: int) -> None:
    """Prints the windows of a micro-batch."""
    ends = {row.end.timestamp() for row in batch.select("window.end", "product", "clicks").collect()}
    now_s = time.time()
    for end_s in sorted(ends):
        print(json.dumps({"end_s": end_s, "out_s": now_s}), flush=True)


def start(spark: SparkSession, directory: str, port: int, window_ms: int, grace_ms: int) -> None:
    """Runs the query until it fails, as it does when its input ends."""
    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    events = lines.select(F.from_json("value", SCHEMA).alias("event")).select("event.*")
    late = events.withWatermark("created_at", f"{grace_ms} milliseconds")
    window = F.window("created_at", f"{window_ms} milliseconds")
    sums = late.groupBy(window, "product").agg(F.sum("clicks_count").alias("clicks"))
    query = (
        sums.writeStream.outputMode("append")
        .foreachBatch(show)
        .option("checkpointLocation", tempfile.mkdtemp(dir=directory))
        .start()
    )
    query.awaitTermination()


def main() -> None:
    port, window_ms, grace_ms = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        spark = session(directory)
        spark.sparkContext.setLogLevel("ERROR")
        start(spark, directory, port, window_ms, grace_ms)


if __name__ == "__main__":
    main()
