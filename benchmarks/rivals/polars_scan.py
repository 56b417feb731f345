"""Polars: a lazy scan of the JSON files for the columns needed, on the streaming engine: its fastest form."""

import sys
from dataclasses import dataclass

import polars as pl

from benchmarks.contender import Answer, measure


@dataclass(frozen=True)
class Form:
    """The columns to read, where time, product and clicks are among them, and which events count."""

    schema: dict[str, pl.DataType | type[pl.DataType]]
    time: pl.Expr
    product: pl.Expr
    clicks: pl.Expr
    where: pl.Expr | None = None


FLAT = {"created_at": pl.String, "product": pl.String, "clicks_count": pl.Int64}
SUMS = Form(FLAT, pl.col("created_at"), pl.col("product"), pl.col("clicks_count"))
_ITEM = pl.col("order").struct.field("item")
FORMS = {
    "sums": SUMS,
    "malformed": SUMS,
    "where": Form(FLAT | {"buys_count": pl.Int64}, SUMS.time, SUMS.product, SUMS.clicks, pl.col("buys_count") == 1),
    "nested": Form(
        {
            "meta": pl.Struct({"time": pl.String}),
            "order": pl.Struct({"item": pl.Struct({"product": pl.String, "clicks": pl.Int64})}),
        },
        pl.col("meta").struct.field("time"),
        _ITEM.struct.field("product"),
        _ITEM.struct.field("clicks"),
    ),
}


def clicks_per_window(form: Form, paths: list[str]) -> pl.DataFrame:
    events = pl.scan_ndjson(paths, schema=form.schema)
    if form.where is not None:
        events = events.filter(form.where)
    time = form.time.str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="ms")
    return (
        events.select(window=time.dt.truncate("30s"), product=form.product, clicks=form.clicks)
        .group_by("window", "product")
        .agg(pl.col("clicks").sum())
        .collect(engine="streaming")
    )


if __name__ == "__main__":
    form = FORMS[sys.argv[3] if len(sys.argv) > 3 else "sums"]
    measure(lambda paths: clicks_per_window(form, paths), lambda frame: Answer.of(frame["clicks"].to_list()))
