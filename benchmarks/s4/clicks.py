"""Serves of advertisements and the clicks on them, as a search engine's logs have them, and errors of estimated CTRs.

Popularity of query-advertisement pairs is Zipf-distributed; each pair has a probability to be clicked of its own.
"""

from typing import NamedTuple

import numpy as np
import polars as pl

PAIRS = 20_000
EXPONENT = 1.0
CTR_BETA = (2.0, 18.0)
"""Parameters of the beta distribution that the pairs' probabilities are drawn from: one serve in ten is clicked."""
USERS = 250_000
SPAN_MS = 3 * 3_600_000
DELAY_MS = 15_000
"""Mean time from a serve to its click, exponentially distributed."""
SERVES_MIN = 1_000
"""Pairs with fewer serves do not count in errors."""
_BEGIN_MS = 1_772_452_800_000


class Traffic(NamedTuple):
    """Events by time: `serves` has @time, serve, query, ad, user; `clicks` has @time, serve, ad."""

    serves: pl.DataFrame
    clicks: pl.DataFrame

    @property
    def events(self) -> int:
        return len(self.serves) + len(self.clicks)


class CtrError(NamedTuple):
    """Mean of |estimate - CTR| / CTR over the pairs with enough serves, in percent."""

    weighted: float
    """By the pairs' serves."""
    plain: float
    pairs: int


def traffic_of(events: int, seed: int = 6) -> Traffic:
    """About so many events, from a seed."""
    chance = np.random.default_rng(seed)
    count = round(events / (1 + CTR_BETA[0] / sum(CTR_BETA)))
    popularity = np.arange(1, PAIRS + 1) ** -EXPONENT
    probabilities = chance.beta(*CTR_BETA, PAIRS)
    pairs = chance.choice(PAIRS, count, p=popularity / popularity.sum())
    times = np.sort(chance.integers(0, SPAN_MS, count)) + _BEGIN_MS
    serves = pl.DataFrame(
        {
            "@time": times,
            "serve": np.arange(count),
            "query": pairs // 4,
            "ad": pairs,
            "user": chance.integers(0, USERS, count),
        }
    ).with_columns(
        pl.col("@time").cast(pl.Int64),
        pl.format("s{}", pl.col("serve") * 7_919),
        pl.format("query {}", "query"),
        pl.format("ad-{}", "ad"),
        pl.format("user-{}", "user"),
    )
    clicked = np.flatnonzero(chance.random(count) < probabilities[pairs])
    delays = chance.exponential(DELAY_MS, len(clicked)).astype(np.int64)
    clicks = (
        serves[clicked].select(pl.col("@time") + pl.Series(delays), "serve", "ad").sort("@time", maintain_order=True)
    )
    return Traffic(serves, clicks)


def rates(serves: pl.DataFrame, clicks: pl.DataFrame) -> pl.DataFrame:
    """Serves and CTR of each query and ad, by a join of what is there: query, ad, serves, ctr."""
    clicked = serves.join(clicks.select("serve", "ad", clicked=1), on=("serve", "ad"), how="left")
    return clicked.group_by("query", "ad").agg(serves=pl.len(), ctr=pl.col("clicked").fill_null(0).mean())


def error_of(estimates: pl.DataFrame, truth: pl.DataFrame) -> CtrError:
    """The error of estimated rates (query, ad, ctr); a pair that is not estimated is wrong by its whole CTR."""
    counted = truth.filter(pl.col("serves") >= SERVES_MIN, pl.col("ctr") > 0)
    both = counted.join(estimates.select("query", "ad", estimate="ctr"), on=("query", "ad"), how="left")
    errors = both.select("serves", error=100 * (pl.col("estimate").fill_null(0) / pl.col("ctr") - 1).abs())
    weighted, plain = errors.select(
        (pl.col("error") * pl.col("serves")).sum() / pl.col("serves").sum(), pl.col("error").mean().alias("plain")
    ).row(0)
    return CtrError(weighted, plain, len(errors))
