"""Spark on local[2] computes windows of several sizes over rows that it holds in memory, as columns."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import TracebackType

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


class SparkWindows:
    """Tumbling windows of these lengths (min) by key, with COUNT and SUM, in two ways: an aggregation for each size,
    or one over rows that are repeated for each. `times`: the seconds of each run, by way."""

    OF_SIZES, REPEATED = "Spark, an aggregation a size", "Spark, rows repeated for each size"

    def __init__(self, sizes: Sequence[int], rows: pl.DataFrame) -> None:
        self._sizes = sizes
        self._directory = TemporaryDirectory()
        settings = {
            "spark.driver.memory": "2g", "spark.local.dir": self._directory.name, "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{self._directory.name}/warehouse", "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }  # fmt: skip
        path = Path(self._directory.name) / "rows.parquet"
        rows.write_parquet(path)
        self._spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._rows = self._spark.read.parquet(str(path)).repartition(2).persist()
        self._rows.count()
        ways = {self.OF_SIZES: self._of_sizes, self.REPEATED: self._repeated}
        self._ways = {name: make() for name, make in ways.items()}
        self.times: dict[str, list[float]] = {name: [] for name in ways}
        for windows in self._ways.values():
            _compute(windows)

    def __enter__(self) -> "SparkWindows":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._spark.stop()
        self._directory.cleanup()

    def measure(self) -> None:
        """Computes all windows once in each way."""
        for name, windows in self._ways.items():
            began = perf_counter()
            _compute(windows)
            self.times[name].append(perf_counter() - began)

    def windows(self) -> dict[tuple[int, int], int]:
        """The number of keys in each window, by its start and length."""
        counted = self._ways[self.REPEATED].groupBy("start", "size").count().collect()
        return {(row["start"], row["size"]): row["count"] for row in counted}

    def _of_sizes(self) -> DataFrame:
        starts = [(F.floor(F.col("minute") / size) * size).alias("start") for size in self._sizes]
        each = zip(starts, self._sizes, strict=True)
        return reduce(
            DataFrame.unionAll,
            (
                self._rows.groupBy(start, F.lit(size).alias("size"), "k").agg(F.count("*"), F.sum("n"))
                for start, size in each
            ),
        )

    def _repeated(self) -> DataFrame:
        sizes = F.explode(F.array(*(F.lit(size) for size in self._sizes)))
        repeated = self._rows.withColumn("size", sizes)
        start = (F.floor(F.col("minute") / F.col("size")) * F.col("size")).alias("start")
        return repeated.groupBy(start, "size", "k").agg(F.count("*"), F.sum("n"))


def _compute(windows: DataFrame) -> None:
    windows.write.format("noop").mode("overwrite").save()
