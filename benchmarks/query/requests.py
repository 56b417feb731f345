"""Makes the events whose expressions are measured: requests to a shop, as parsers hand them on. Seeded."""

import numpy as np
import polars as pl

from query import Schema

SCHEMA = Schema(
    {
        "status": "integer",
        "bytes": "integer",
        "latency": "number",
        "method": "string",
        "path": "string",
        "referrer": "string",
        "user_id": "string",
        "props": "string",
        "at": "timestamp",
    },
    open=False,
)
_BEGIN_MS = 1_772_000_000_000
_SPAN_MS = 24 * 60 * 60 * 1000
_PAGES = ("/shop/{}", "/shop/{}/reviews?page=2", "/cart/add?item={}", "/search?q=red+{}", "/static/{}.css")


def requests(rows: int, *, seed: int = 7) -> pl.DataFrame:
    """`rows` events of SCHEMA, with their time; one in ten fails, one in five has no referrer."""
    random = np.random.default_rng(seed)
    time_ms = pl.Series("@time", _BEGIN_MS + np.sort(random.integers(0, _SPAN_MS, rows)))
    paths = [page.format(number) for page in _PAGES for number in range(2_000)]
    referrers = [None, "https://shop.example/", "https://Search.example/?q=shoes", "https://news.example/a/1", "-"]
    return pl.DataFrame(
        {
            "@time": time_ms,
            "status": _drawn(random, rows, [200, 304, 404, 500, 503], [0.75, 0.1, 0.05, 0.05, 0.05]),
            "bytes": random.integers(0, 200_000, rows),
            "latency": random.integers(1, 4_000, rows) / 1_024,
            "method": _drawn(random, rows, ["GET", "POST", "HEAD"], [0.8, 0.15, 0.05]),
            "path": pl.Series(paths)[random.integers(0, len(paths), rows)],
            "referrer": _drawn(random, rows, referrers, [0.2] * 5),
            "user_id": pl.Series(random.integers(0, 100_000, rows)).cast(pl.String),
            "props": pl.Series([f'{{"plan": "{name}", "n": {n}}}' for name in ("free", "pro") for n in range(500)])[
                random.integers(0, 1_000, rows)
            ],
            "at": time_ms.cast(pl.Datetime("ms", "UTC")),
        }
    )


def _drawn(
    random: np.random.Generator, rows: int, values: list[int] | list[str] | list[str | None], p: list[float]
) -> pl.Series:
    return pl.Series(values)[random.choice(len(values), rows, p=p)]
