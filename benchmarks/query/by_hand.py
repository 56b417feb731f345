"""The measured queries, and how somebody who knows Polars would write what agents evaluate of them."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
from polars import col


@dataclass(frozen=True, slots=True)
class Measured:
    """A query over `web`, and its WHERE, keys (k0 ...) and arguments (x0 ...) written by hand."""

    name: str
    query: str
    by_hand: Callable[[pl.LazyFrame], pl.LazyFrame]


def _path() -> pl.Expr:
    return col("path").str.extract(r"^([^?#]*)")


MEASURED = (
    Measured(
        "comparison",
        "SELECT COUNT(*) FROM web WHERE status = 500",
        lambda web: web.filter(col("status") == 500).select("@time"),
    ),
    Measured(
        "several conditions",
        "SELECT SUM(bytes) FROM web WHERE method = 'GET' AND status >= 400 AND latency > 0.5",
        lambda web: web.filter((col("method") == "GET") & (col("status") >= 400) & (col("latency") > 0.5)).select(
            "@time", x0="bytes"
        ),
    ),
    Measured(
        "BETWEEN and IN",
        "SELECT SUM(bytes) FROM web WHERE bytes BETWEEN 1000 AND 50000 AND status IN (200, 304)",
        lambda web: web.filter(col("bytes").is_between(1_000, 50_000) & col("status").is_in([200, 304])).select(
            "@time", x0="bytes"
        ),
    ),
    Measured(
        "LIKE, prefix",
        "SELECT method, COUNT(*) FROM web WHERE path LIKE '/shop/%' GROUP BY method",
        lambda web: web.filter(col("path").str.starts_with("/shop/")).select("@time", k0="method"),
    ),
    Measured(
        "LIKE, anywhere",
        "SELECT COUNT(*) FROM web WHERE path LIKE '%add%'",
        lambda web: web.filter(col("path").str.contains("add", literal=True)).select("@time"),
    ),
    Measured(
        "RLIKE of all events",
        "SELECT COUNT(*) FROM web WHERE path RLIKE '^/shop/[0-9]+$'",
        lambda web: web.filter(col("path").str.contains("^/shop/[0-9]+$")).select("@time"),
    ),
    Measured(
        "RLIKE of few events",
        "SELECT SUM(bytes) FROM web WHERE path RLIKE '^/shop/[0-9]+$' AND status = 500",
        lambda web: web.filter(col("path").str.contains("^/shop/[0-9]+$") & (col("status") == 500)).select(
            "@time", x0="bytes"
        ),
    ),
    Measured(
        "integer arithmetic",
        "SELECT status // 100 AS class, SUM(bytes * 8 + 100) FROM web GROUP BY class",
        lambda web: web.select("@time", k0=col("status") // 100, x0=col("bytes") * 8 + 100),
    ),
    Measured(
        "floating point",
        "SELECT AVG(latency * 1000.0), MAX(latency * latency - 1.0) FROM web",
        lambda web: web.select("@time", x0=col("latency") * 1000.0, x1=col("latency") * col("latency") - 1.0),
    ),
    Measured(
        "CASE",
        "SELECT CASE WHEN status < 300 THEN 'good' WHEN status < 400 THEN 'moved' WHEN status < 500 THEN 'wrong' "
        "ELSE 'broken' END AS class, COUNT(*) FROM web GROUP BY class",
        lambda web: web.select(
            "@time",
            k0=pl.when(col("status") < 300)
            .then(pl.lit("good"))
            .when(col("status") < 400)
            .then(pl.lit("moved"))
            .when(col("status") < 500)
            .then(pl.lit("wrong"))
            .otherwise(pl.lit("broken")),
        ),
    ),
    Measured(
        "COALESCE",
        "SELECT COALESCE(referrer, 'none') AS r, COUNT(*) FROM web GROUP BY r",
        lambda web: web.select("@time", k0=pl.coalesce("referrer", pl.lit("none"))),
    ),
    Measured(
        "LOWER and SUBSTR",
        "SELECT LOWER(method) AS m, SUBSTR(path, 1, 5) AS p, COUNT(*) FROM web GROUP BY m, p",
        lambda web: web.select("@time", k0=col("method").str.to_lowercase(), k1=col("path").str.slice(0, 5)),
    ),
    Measured(
        "URL_PATH, shared",
        "SELECT URL_PATH(path) AS p, MAX(LENGTH(URL_PATH(path))) FROM web WHERE URL_PATH(path) <> '/search' GROUP BY p",
        lambda web: (
            web.with_columns(k0=_path())
            .filter(col("k0") != "/search")
            .select("@time", "k0", x0=col("k0").str.len_chars().cast(pl.Int64))
        ),
    ),
    Measured(
        "REGEXP_EXTRACT",
        r"SELECT REGEXP_EXTRACT(path, '^/(\w+)/', 1) AS section, COUNT(*) FROM web GROUP BY section",
        lambda web: web.select("@time", k0=col("path").str.extract(r"^/(\w+)/", 1)),
    ),
    Measured(
        "JSON_VALUE",
        "SELECT JSON_VALUE(props, '$.plan') AS plan, COUNT(*) FROM web GROUP BY plan",
        lambda web: web.select("@time", k0=col("props").str.json_path_match("$['plan']")),
    ),
    Measured(
        "CAST of texts",
        "SELECT MAX(CAST(user_id AS BIGINT)) FROM web",
        lambda web: web.select("@time", x0=col("user_id").cast(pl.Int64, strict=False)),
    ),
    Measured(
        "DATE_TRUNC",
        "SELECT DATE_TRUNC('hour', at) AS hour, COUNT(*) FROM web GROUP BY hour",
        lambda web: web.select("@time", k0=col("at").dt.truncate("1h").dt.timestamp("ms")),
    ),
    Measured(
        "FILTER",
        "SELECT SUM(bytes) FILTER (WHERE status = 200), COUNT(*) FILTER (WHERE latency > 1.0), COUNT(*) FROM web",
        lambda web: web.select(
            "@time",
            x0=pl.when(col("status") == 200).then("bytes"),
            x1=pl.when(col("latency") > 1.0).then(pl.lit(True)),
        ),
    ),
)
