"""Polars: a lazy scan of the JSON files for the columns needed, on the streaming engine: its fastest form."""

import polars as pl

from benchmarks.contender import Answer, measure

SCHEMA = {"created_at": pl.String, "product": pl.String, "clicks_count": pl.Int64}


def clicks_per_window(paths: list[str]) -> pl.DataFrame:
    time = pl.col("created_at").str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="ms")
    return (
        pl.scan_ndjson(paths, schema=SCHEMA)
        .with_columns(window=time.dt.truncate("30s"))
        .group_by("window", "product")
        .agg(pl.col("clicks_count").sum())
        .collect(engine="streaming")
    )


if __name__ == "__main__":
    measure(clicks_per_window, lambda frame: Answer.of(frame["clicks_count"].to_list()))
