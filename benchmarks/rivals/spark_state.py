"""Spark Structured Streaming on local[2]: a running count of each key in Python with state, an update out per event.

The command line is DATA_FOLDER WARM_UPS applyInPandasWithState|transformWithStateInPandas EVENTS, those of a
micro-batch. They come from Parquet files of that many, which are in the page cache; updates are added up as they come.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name Spark's own documentation uses
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.contender import Answer, measure
from benchmarks.rivals.keys import read_keys
from benchmarks.rivals.spark_stream import session

UPDATES = "key STRING, n BIGINT"
STATE = "n BIGINT"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""Spark has `transformWithStateInPandas` with this store alone."""


def counted(_key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    (n,) = state.get if state.exists else (0,)
    for frame in frames:
        yield pd.DataFrame({"key": frame["key"], "n": range(n + 1, n + 1 + len(frame))})
        n += len(frame)
    state.update((n,))


class Count(StatefulProcessor):
    """The same for `transformWithStateInPandas`."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("n", STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, _key: tuple[str], rows: Iterator[pd.DataFrame], _timer_values: object
    ) -> Iterator[pd.DataFrame]:
        (n,) = self._state.get() if self._state.exists() else (0,)
        for frame in rows:
            yield pd.DataFrame({"key": frame["key"], "n": range(n + 1, n + 1 + len(frame))})
            n += len(frame)
        self._state.update((n,))

    def close(self) -> None:
        pass


class Counting:
    """Runs the query again and again, each time as a new stream with a new checkpoint."""

    def __init__(self, spark: SparkSession, directory: str, method: str, events: Path) -> None:
        self._spark, self._directory, self._method, self._events = spark, directory, method, events
        self._rows = self._total = 0

    def counts(self, _: list[str]) -> Answer:
        self._rows = self._total = 0
        events = self._spark.readStream.schema("key STRING").option("maxFilesPerTrigger", 1)
        groups = events.parquet(str(self._events)).groupBy("key")
        if self._method == "applyInPandasWithState":
            updates = groups.applyInPandasWithState(counted, UPDATES, STATE, "append", GroupStateTimeout.NoTimeout)
        else:
            updates = groups.transformWithStateInPandas(Count(), UPDATES, "append", "None")
        query = (
            updates.writeStream.outputMode("append")
            .foreachBatch(self._add)
            .option("checkpointLocation", tempfile.mkdtemp(dir=self._directory))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return Answer(self._rows, self._total, 0)

    def _add(self, batch: DataFrame, _number: int) -> None:
        (row,) = batch.agg(F.count("n").alias("rows"), F.sum("n").alias("total")).collect()
        self._rows += row["rows"]
        self._total += row["total"] or 0


def write_parquet(folder: Path, target: Path, events: int) -> None:
    keys = [key for path in sorted(folder.iterdir()) for key in read_keys(path)]
    for number in range(0, len(keys), events):
        pd.DataFrame({"key": keys[number : number + events]}).to_parquet(target / f"{number:09}.parquet")


def main() -> None:
    method, events = sys.argv[3], int(sys.argv[4])
    with tempfile.TemporaryDirectory() as directory:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        parquet = Path(directory) / "events"
        parquet.mkdir()
        write_parquet(Path(sys.argv[1]), parquet, events)
        spark = session(directory)
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
        spark.sparkContext.setLogLevel("ERROR")
        measure(Counting(spark, directory, method, parquet).counts, lambda answer: answer)
        spark.stop()


if __name__ == "__main__":
    main()
